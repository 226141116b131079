# Makes the initial RAM file system that a guest boots from: an archive of the userland, one of a kernel's
# modules and one of the lab's own files, one after the other, as Linux reads them.
# Sourced by lab/run, which sets CACHE, LAB, ROOT and LOGS.
# shellcheck shell=bash

# The modules that the guest loads, without those that they depend on. A name with a question mark may be
# absent: in some kernels it is built in, or is not built.
readonly MODULES=(
  mlx5_core mlx5_ib
  ib_uverbs ib_umad rdma_ucm ib_ipoib
  rdma_rxe\? crc32_generic\? dummy veth e1000
  bnxt_en bnxt_re
  vfio-pci vfio_iommu_type1 uio_pci_generic
  virtio_iommu\?
)

# archive DIRECTORY FILE: packs a tree as Linux wants its initial file system.
archive() {
  (cd "$1" && find . | "$CACHE/userland/old/bin/busybox" cpio -o -H newc --quiet) >"$2.part" 2>/dev/null &&
    mv "$2.part" "$2"
}

# guest_program NAME ARGUMENT...: runs kmod's program NAME from the guest's userland on this machine.
guest_program() {
  local name=$1 tree=$CACHE/userland/old
  shift
  "$tree/lib64/ld-linux-x86-64.so.2" --argv0 "$name" --library-path "$tree/lib/x86_64-linux-gnu" \
    "$tree/bin/kmod" "$@"
}

# userland_image NAME: $CACHE/image/userland-NAME.cpio.
userland_image() {
  local image=$CACHE/image/userland-$1.cpio tree=$CACHE/userland/$1 applet part
  [[ $image -nt $tree/ok && $image -nt $LAB/image.sh ]] && return 0
  echo "lab: packing the programs of the $1 guest" >&2
  mkdir -p "$CACHE/image" "$tree"/{dev,proc,sys,tmp,run,root,etc,var,lab,mnt}
  ln -sfn ../run "$tree/var/run"
  # The shell is not busybox's, which prefers its own programs to Debian's (ip, modprobe).
  ln -sfn bash "$tree/bin/sh"
  # Debian's own programs first, busybox for all else.
  for applet in $("$tree/bin/busybox" --list); do
    for part in bin sbin; do
      [[ -e $tree/usr/$part/$applet || -L $tree/usr/$part/$applet ]] && continue 2
    done
    ln -s busybox "$tree/usr/bin/$applet"
  done
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$tree/etc/passwd"
  printf 'root:x:0:\n' >"$tree/etc/group"
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$tree/etc/hosts"
  # Compiled here once, or the guest would compile them, slowly, at each boot.
  chroot "$tree" /bin/sh -c 'python3 -m compileall -q /usr/lib/python3* /usr/lib/pyverbs-tests' >/dev/null 2>&1
  archive "$tree" "$image"
}

# copy_module NAME: a module and all that it depends on, from $FROM to $TO, uncompressed.
copy_module() {
  local name=${1%\?} file copy dependency
  file=$(find "$FROM/kernel" -name "${name//[-_]/[-_]}.ko*" | head -1)
  if [[ -z $file ]]; then
    [[ $1 == *\? ]] && return 0
    echo "lab: $FROM has no module $name" >&2
    return 1
  fi
  copy=$TO/${file#"$FROM/"}
  copy=${copy%.xz}
  [[ -e $copy ]] && return 0
  mkdir -p "${copy%/*}"
  case $file in
    *.xz) "$CACHE/userland/old/bin/busybox" unxz -c "$file" >"$copy" ;;
    *) cp "$file" "$copy" ;;
  esac || return 1
  for dependency in $(guest_program modinfo -F depends "$copy" | tr ',' ' '); do
    copy_module "$dependency" || return 1
  done
}

# kernel_image NAME: $CACHE/image/NAME.cpio, the modules of the kernel NAME.
kernel_image() {
  local name=$1 image=$CACHE/image/$1.cpio kernel=$CACHE/kernel/$1 tree=$CACHE/image/$1 release module
  [[ $image -nt $kernel/ok && $image -nt $LAB/image.sh ]] && return 0
  release=$(<"$kernel/release")
  echo "lab: packing the modules of $release" >&2
  rm -rf "$tree"
  local FROM=$kernel/lib/modules/$release TO=$tree/usr/lib/modules/$release
  mkdir -p "$TO"
  cp "$FROM"/modules.{order,builtin,builtin.modinfo} "$TO"
  for module in "${MODULES[@]}"; do
    copy_module "$module" || return 1
  done
  ln -s usr/lib "$tree/lib"
  guest_program depmod -b "$tree" "$release" || return 1
  rm "$tree/lib"
  archive "$tree" "$image"
}

# userland_of KERNEL LINK: which programs the guest with this kernel has. Bookworm's rdma-core is older than
# the BCM57608.
userland_of() {
  if [[ $2 == netxtreme ]]; then echo new; else echo "$1"; fi
}

# guest_image KERNEL USERLAND FILE: the whole initial file system of a guest.
guest_image() {
  local tree
  userland_image "$2" && kernel_image "$1" || return 1
  tree=$(mktemp -d) || return 1
  mkdir "$tree/lab"
  cp "$LAB/guest/init" "$tree/init"
  cp "$LAB"/guest/* "$tree/lab"
  cp -r "$LAB/suites" "$tree/lab/suites"
  cp "$ROOT/tests/golden/posted_bnxt.txt" "$tree/lab"
  chmod +x "$tree/init"
  cp -r "$LOGS/programs" "$tree/lab/bin"
  archive "$tree" "$3.lab"
  rm -rf "$tree"
  cat "$CACHE/image/userland-$2.cpio" "$CACHE/image/$1.cpio" "$3.lab" >"$3" && rm "$3.lab"
}
