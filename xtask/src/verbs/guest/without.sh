# The same program where libibverbs is not installed: it says so, and all else works.
libraries=$(ls /usr/lib/x86_64-linux-gnu/libibverbs.so.1 /usr/lib/x86_64-linux-gnu/librdmacm.so.1)
for library in $libraries; do mv $library $library.away; done
barn doctor
echo "section refused"
barn bench fabric --transport verbs --quick 2>/tmp/said && echo "measured what is not there"
cat /tmp/said
echo "section tcp"
barn bench fabric --transport tcp --memory 16MiB --rows tcp/read-64/blocking --quick --json 2>/tmp/said
code=$?
for library in $libraries; do mv $library.away $library; done
exit $code
