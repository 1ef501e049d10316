//! Which objects each transaction touches: a seeded choice, the same for everybody.

/// So many objects are hot under high contention.
const HOT: u32 = 16;

/// How likely two transactions meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contention {
    /// Any object, with the same chance.
    Low,
    /// One of 16 hot ones.
    High,
}

/// What one transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Reads two objects, changes both.
    Rmw2,
    /// Reads four objects.
    Read4,
}

/// A row's workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) contention: Contention,
}

impl Case {
    /// Every row's. Reading alone does not contend: it has one row.
    pub(crate) const ALL: [Self; 3] = [
        Self { operation: Operation::Rmw2, contention: Contention::Low },
        Self { operation: Operation::Rmw2, contention: Contention::High },
        Self { operation: Operation::Read4, contention: Contention::Low },
    ];

    /// The end of a row's name.
    pub(crate) fn name(self) -> String {
        match (self.operation, self.contention) {
            (Operation::Rmw2, Contention::Low) => "rmw-2/low".into(),
            (Operation::Rmw2, Contention::High) => "rmw-2/high".into(),
            (Operation::Read4, _) => "read-only-4".into(),
        }
    }
}

/// A client's sequence of objects.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    objects: u32,
    state: u64,
}

impl Workload {
    /// A sequence over so many objects; clients have seeds of their own.
    pub(crate) fn new(contention: Contention, objects: u32, seed: u64) -> Self {
        let objects = if contention == Contention::High { objects.min(HOT) } else { objects };
        assert!(objects >= 8, "four different ones must be found soon");
        // splitmix64's step, so that neighbouring seeds part at once; never zero, where xorshift stays.
        let state = (seed.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { objects, state }
    }

    /// Two different objects.
    pub(crate) fn pair(&mut self) -> (u32, u32) {
        let [i, j] = self.different();
        (i, j)
    }

    /// Four different objects.
    pub(crate) fn four(&mut self) -> [u32; 4] {
        self.different()
    }

    fn different<const N: usize>(&mut self) -> [u32; N] {
        let mut chosen = [u32::MAX; N];
        for at in 0..N {
            chosen[at] = loop {
                let next = self.next();
                if !chosen[..at].contains(&next) {
                    break next;
                }
            };
        }
        chosen
    }

    /// xorshift64*, scaled to the objects.
    fn next(&mut self) -> u32 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let random = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        ((random * u64::from(self.objects)) >> 32) as u32
    }
}
