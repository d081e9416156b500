#!/bin/sh
# The first program of the machine that machine.py makes: $1 is its folder. It makes the machine's own view of files,
# then starts what its standard input names, one program a line, and ends, with everything in it, when that closes.
set -eu
folder=$1
mount --make-rprivate /

# What is written to these places stays in the folder, and what is mounted there is gone with the machine.
for place in /var/lib /var/log; do
  mkdir -p "$folder/files$place"
  mount --bind "$folder/files$place" "$place"
done
mkdir -p /var/lib/kubelet /var/lib/containerd /var/lib/volumes
mount -t tmpfs tmpfs /run
mkdir -p /run/lock /run/netns

# A kubelet tunes the kernel, which is everybody's: here it tunes copies.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys \
  kernel/keys/root_maxbytes; do
  mkdir -p "$folder/files/sys/$(dirname $setting)"
  cat "/proc/sys/$setting" >"$folder/files/sys/$setting"
  mount --bind "$folder/files/sys/$setting" "/proc/sys/$setting"
done

hierarchies=$(awk '$3 == "cgroup" {print $2 " " $4}' /proc/mounts)
mount -t sysfs sysfs /sys
if [ -n "$hierarchies" ]; then
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  echo "$hierarchies" | while read -r point options; do
    mkdir -p "$point"
    # The options that name the hierarchy, without those of every mount.
    mount -t cgroup -o "$(echo "$options" | sed -E 's/(^|,)(rw|ro|nosuid|nodev|noexec|relatime)//g; s/^,//')" cgroup "$point"
  done
  # As on a node with systemd: beside the pods stands one group of programs, which does not count as many.
  for root in /sys/fs/cgroup/*; do
    mkdir "$root/programs"
    for setting in cpuset.cpus cpuset.mems; do
      if [ -e "$root/$setting" ]; then cat "$root/$setting" >"$root/programs/$setting"; fi
    done
    echo $$ >"$root/programs/cgroup.procs"
  done
else
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  # No group has both processes and limits for groups below it.
  mkdir /sys/fs/cgroup/programs
  while read -r pid; do echo "$pid" >/sys/fs/cgroup/programs/cgroup.procs || true; done </sys/fs/cgroup/cgroup.procs
  # shellcheck disable=SC2013 # the names are words of one line
  for name in $(cat /sys/fs/cgroup/cgroup.controllers); do echo "+$name" >/sys/fs/cgroup/cgroup.subtree_control; done
fi
mount --make-rshared /

while read -r name; do
  (
    sh "$folder/$name.sh" </dev/null >>"$folder/$name.log" 2>&1
    echo "$name ended with code $?" >>"$folder/ended"
  ) &
done
