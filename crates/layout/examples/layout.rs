//! Prints `docs/layout.md`; `cargo xtask layout` writes it.

fn main() {
    print!("{}", barn_layout::diagram::document());
}
