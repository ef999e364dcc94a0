#!/bin/sh
# First process of a testbed host, started in fresh namespaces: records itself, lays out the host's
# file system and becomes its init.
# usage: boot.sh HOST_DIRECTORY LAYERS NAME [SOURCE TARGET]...
#        (LAYERS of the root file system, the uppermost first, with colons between; pairs: read-only binds of folders or files)
set -eu
directory=$1 layers=$2 name=$3
shift 3

# /proc is still the machine's own here, so this is our process number out there, and our start time:
# together they say later, beyond doubt, whether the process is still this one.
read -r stat < /proc/self/stat
record=$directory/init
echo "$stat" | { read -r pid comm state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt \
    utime stime cutime cstime priority nice threads itrealvalue starttime rest
    echo "$pid $starttime" > "$record.new"; }
mv "$record.new" "$record"

root=$directory/root
# Nothing here needs setuid, and nobody keeps this root's programs as free of holes as the machine's own.
mount -t overlay "tierbench-$name" -o "nosuid,lowerdir=$layers,upperdir=$directory/upper,workdir=$directory/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/run/lock"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
chmod 1777 "$root/run/lock"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/full" c 1 7
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
mknod -m 666 "$root/dev/tty" c 5 0
mknod -m 666 "$root/dev/fuse" c 10 229
while [ $# -gt 0 ]; do
    if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root${2%/*}" && : >"$root$2"; fi
    mount --bind -o ro "$1" "$root$2"
    shift 2
done

hostname "$name"
cd "$root"
mkdir -p .machine
pivot_root . .machine
umount -l /.machine
rmdir /.machine
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin LANG=C.UTF-8 tini -- sleep infinity
