# Fetches what the lab runs: a QEMU with vfio-user-pci, stock kernels, and the userland of the guest.
# Sourced by lab/run, which sets CACHE.
# shellcheck shell=bash
#
# Everything is a Debian package. apt fetches it, with an own set of lists, so that each byte is checked
# against Debian's signed metadata and nothing of the host is changed. The packages are unpacked into the
# cache and never installed.

# The release of the old guest's kernel and programs.
readonly OLD_RELEASE=bookworm
# The series of that kernel.
readonly OLD_KERNEL_SERIES=6.12
# The release whose backports hold a QEMU with vfio-user-pci, and mostly Debian's newest kernel.
readonly BACKPORTS_RELEASE=trixie
# The suite of the new guest's programs.
readonly NEW_SUITE=testing
# A suite that sometimes has a newer kernel than the backports.
readonly KERNEL_SUITE=unstable

# The programs of both guests.
readonly USERLAND_PACKAGES=(
  bash busybox-static kmod iproute2 ethtool pciutils strace
  ibverbs-utils ibverbs-providers rdma-core rdmacm-utils perftest infiniband-diags
  python3 python3-pyverbs
)

# Packages that others depend on, yet that nothing in the guest uses: kept out to keep its image small.
readonly USERLAND_LEFT_OUT='perl|perl-base|perl-modules-.*|libperl.*|lib[a-z-]*-perl|dpkg|usrmerge|debconf|adduser|passwd|udev|init-system-helpers|sysvinit-utils|lsb-base|libgdbm.*|libdb5.3|libsemanage.*|libpam.*|tar|systemd|libsystemd-shared|tzdata'

# host_mirror PATH: the address of the Debian mirror that this machine's apt uses, for the archive whose
# last path component is PATH (debian or debian-security). Printed, and kept nowhere.
host_mirror() {
  local archive=$1
  {
    # The one-line format: "deb [options] ADDRESS suite component...".
    find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -exec cat {} + 2>/dev/null |
      sed -n 's/^[[:space:]]*deb[[:space:]]\+\(\[[^]]*\][[:space:]]\+\)\?\([^[:space:]]\+\).*/\2/p'
    # The paragraph format: "URIs: ADDRESS...".
    find /etc/apt/sources.list.d -name '*.sources' -exec cat {} + 2>/dev/null |
      sed -n 's/^URIs:[[:space:]]*//Ip' | tr -s '[:space:]' '\n'
  } | sed 's,/*$,,' | grep -m1 "/$archive\$"
}

# apt_lists NAME: the apt options that select the private lists NAME.
apt_options() {
  local state=$CACHE/apt/$1
  APT_OPTIONS=(
    -o "Dir::State=$state" -o "Dir::State::lists=$state/lists" -o "Dir::State::status=$state/status"
    -o "Dir::Cache=$state" -o "Dir::Cache::archives=$CACHE/apt/archives"
    -o "Dir::Etc::sourcelist=$state/suites.sources" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
    -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o APT::Architecture=amd64
    -o APT::Get::List-Cleanup=false -o Acquire::Retries=5 -o Acquire::Languages=none
    -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
    -o APT::Keep-Downloaded-Packages=true -o Binary::apt-get::APT::Keep-Downloaded-Packages=true
    -o DPkg::Post-Invoke= -o APT::Update::Post-Invoke= -o APT::Update::Post-Invoke-Success=
    -o Debug::NoLocking=true -q=2
  )
}

# again COMMAND...: runs it until it succeeds, at most four times: mirrors have bad moments.
again() {
  local try
  for try in 1 2 3 4; do
    "$@" && return 0
    echo "lab: try $try failed: $1 ${*: -1}" >&2
    sleep $((try * 3))
  done
  return 1
}

# apt_update NAME SUITE...: makes the private lists NAME, of these suites of the host's mirror.
# A suite that ends in "-security" is looked for in the security archive.
apt_update() {
  local name=$1 state=$CACHE/apt/$1 suite archive address
  shift
  mkdir -p "$state/lists/partial" "$CACHE/apt/archives/partial"
  : >"$state/status"
  : >"$state/suites.sources"
  for suite; do
    archive=debian
    [[ $suite == *-security ]] && archive=debian-security
    address=$(host_mirror $archive) || {
      # A mirror for one archive usually serves the other beside it; without it there are no fixes, only.
      echo "lab: this machine's apt has no mirror of $archive; going on without $suite" >&2
      continue
    }
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' \
      "$address" "$suite" /usr/share/keyrings/debian-archive-keyring.gpg >>"$state/suites.sources"
  done
  apt_options "$name"
  echo "lab: reading the lists of $*" >&2
  again apt-get "${APT_OPTIONS[@]}" --error-on=any update
  # The address is the machine's own business.
}

# apt_closure NAME SUITE PACKAGE...: fetches the packages and all that they depend on, and prints the files.
apt_closure() {
  local name=$1 suite=$2
  shift 2
  apt_options "$name"
  again apt-get "${APT_OPTIONS[@]}" -y --download-only --target-release "$suite" install "$@" >&2 || return 1
  # What the archives directory holds is not what this closure holds: ask apt again for the names.
  apt-get "${APT_OPTIONS[@]}" -y --simulate --target-release "$suite" install "$@" |
    sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) [^[]*\[\([^]]*\)\]).*/\1 \2 \3/p' |
    while read -r package version architecture; do
      echo "$CACHE/apt/archives/${package}_${version//:/%3a}_$architecture.deb"
    done
}

# apt_package NAME PACKAGE=VERSION: fetches one package, and prints its file.
apt_package() {
  apt_options "$1"
  (cd "$CACHE/apt/archives" && again apt-get "${APT_OPTIONS[@]}" download "$2" >&2) || return 1
  local version=${2#*=}
  find "$CACHE/apt/archives" -name "${2%%=*}_${version//:/%3a}_*.deb"
}

# unpack DIRECTORY FILE...: unpacks packages into a tree with a merged /usr.
unpack() {
  local tree=$1 part file
  shift
  for part in bin sbin lib lib64; do
    mkdir -p "$tree/usr/$part"
    [[ -e $tree/$part ]] || ln -s "usr/$part" "$tree/$part"
  done
  for file; do
    dpkg-deb --fsys-tarfile "$file" |
      tar -x -C "$tree" --keep-directory-symlink --exclude=./usr/share/man \
        --exclude=./usr/share/locale --exclude=./usr/share/info || return 1
  done
}

# fetch_qemu: a QEMU with vfio-user-pci in $CACHE/qemu.
fetch_qemu() {
  [[ -e $CACHE/qemu/ok ]] && return 0
  apt_update "$BACKPORTS_RELEASE" "$BACKPORTS_RELEASE" "$BACKPORTS_RELEASE"-{updates,backports,security} || return 1
  echo "lab: fetching QEMU" >&2
  local files
  files=$(apt_closure "$BACKPORTS_RELEASE" "$BACKPORTS_RELEASE-backports" qemu-system-x86) || return 1
  rm -rf "$CACHE/qemu"
  # shellcheck disable=SC2086 # one file a word
  unpack "$CACHE/qemu" $files || return 1
  qemu -device help 2>&1 | grep -q '"vfio-user-pci"' || {
    echo "lab: this QEMU has no vfio-user-pci: $(qemu --version | head -1)" >&2
    return 1
  }
  qemu --version | head -1 >"$CACHE/qemu/ok"
}

# qemu ARGUMENT...: runs the fetched QEMU, with its own loader and libraries.
qemu() {
  (qemu_exec "$@")
}

# qemu_exec ARGUMENT...: becomes that QEMU, so that a background job's process is QEMU itself, which ends with
# the process that started it, whatever ends that.
qemu_exec() {
  local tree=$CACHE/qemu
  export QEMU_MODULE_DIR=$tree/usr/lib/x86_64-linux-gnu/qemu
  exec setpriv --pdeathsig KILL \
    "$tree/lib64/ld-linux-x86-64.so.2" --library-path "$tree/usr/lib/x86_64-linux-gnu" \
    "$tree/usr/bin/qemu-system-x86_64" -L "$tree/usr/share/qemu" -L "$tree/usr/share/seabios" "$@"
}

# newest_image NAME: the version of the newest released kernel in the private lists NAME. Candidates for
# a release are left out.
newest_image() {
  apt_options "$1"
  apt-cache "${APT_OPTIONS[@]}" madison linux-image-amd64 | awk '{ print $3 }' | grep -v '~rc' | sort -V | tail -1
}

# fetch_kernel NAME LISTS PACKAGE VERSION: unpacks a kernel into $CACHE/kernel/NAME. PACKAGE is the package
# of that very kernel, linux-image-RELEASE. Newer ones keep their files in packages beside it.
fetch_kernel() {
  local name=$1 lists=$2 package=$3 version=$4 tree=$CACHE/kernel/$1 release part file files=()
  release=${package#linux-image-}
  echo "lab: fetching the kernel $release, version $version" >&2
  apt_options "$lists"
  for part in image binary modules base; do
    apt-cache "${APT_OPTIONS[@]}" show "linux-$part-$release=$version" >/dev/null 2>&1 || continue
    file=$(apt_package "$lists" "linux-$part-$release=$version") || return 1
    files+=("$file")
  done
  rm -rf "$tree"
  unpack "$tree" "${files[@]}" || return 1
  if [[ -e $tree/boot/vmlinuz-$release ]]; then
    ln -s "boot/vmlinuz-$release" "$tree/vmlinuz"
  else
    ln -s "usr/lib/modules/$release/vmlinuz" "$tree/vmlinuz"
  fi
  [[ -s $tree/vmlinuz && -d $tree/lib/modules/$release/kernel ]] || {
    echo "lab: the packages of $release hold no kernel where the lab looks for one" >&2
    return 1
  }
  echo "$release" >"$tree/release"
  echo "$version" >"$tree/ok"
}

# fetch_kernels: the two kernels, in $CACHE/kernel/{old,new}.
fetch_kernels() {
  local package version lists best=
  if [[ ! -e $CACHE/kernel/old/ok ]]; then
    apt_update "$OLD_RELEASE" "$OLD_RELEASE" "$OLD_RELEASE"-{updates,security} || return 1
    apt_options "$OLD_RELEASE"
    package=$(apt-cache "${APT_OPTIONS[@]}" pkgnames "linux-image-$OLD_KERNEL_SERIES." |
      grep -E '^linux-image-[0-9.]+\+[^-]*-amd64$' | sort -V | tail -1)
    version=$(apt-cache "${APT_OPTIONS[@]}" madison "$package" | awk '{ print $3 }' | sort -V | tail -1)
    [[ $version ]] || {
      echo "lab: $OLD_RELEASE has no kernel $OLD_KERNEL_SERIES" >&2
      return 1
    }
    fetch_kernel old "$OLD_RELEASE" "$package" "$version" || return 1
  fi
  if [[ ! -e $CACHE/kernel/new/ok ]]; then
    apt_update "$BACKPORTS_RELEASE" "$BACKPORTS_RELEASE" "$BACKPORTS_RELEASE"-{updates,backports,security} || return 1
    apt_update "$KERNEL_SUITE" "$KERNEL_SUITE" || return 1
    best=$(for lists in "$BACKPORTS_RELEASE" "$KERNEL_SUITE"; do
      echo "$(newest_image "$lists") $lists"
    done | sort -V | tail -1)
    version=${best% *} lists=${best#* }
    apt_options "$lists"
    package=$(apt-cache "${APT_OPTIONS[@]}" show "linux-image-amd64=$version" |
      grep -o 'linux-image-[0-9][^ ,]*-amd64' | head -1)
    fetch_kernel new "$lists" "$package" "$version" || return 1
  fi
}

# fetch_userland NAME LISTS SUITE: a guest's programs, in $CACHE/userland/NAME.
fetch_userland() {
  local name=$1 lists=$2 suite=$3 tree=$CACHE/userland/$1 files
  [[ -e $tree/ok ]] && return 0
  echo "lab: fetching the programs of the $name guest" >&2
  files=$(apt_closure "$lists" "$suite" "${USERLAND_PACKAGES[@]}") || return 1
  files=$(grep -vE "/($USERLAND_LEFT_OUT)_[^/]*\$" <<<"$files")
  rm -rf "$tree"
  # shellcheck disable=SC2086 # one file a word
  unpack "$tree" $files || return 1
  # The tests of pyverbs are packed as documentation, some of them compressed.
  gunzip -r "$tree/usr/share/doc/rdma-core/tests"
  mv "$tree/usr/share/doc/rdma-core/tests" "$tree/usr/lib/pyverbs-tests"
  rm -rf "$tree/usr/share/doc"
  # shellcheck disable=SC2086
  basename -a $files >"$tree/ok"
}

# fetch_userlands: the programs of both guests.
fetch_userlands() {
  if [[ ! -e $CACHE/userland/old/ok ]]; then
    apt_update "$OLD_RELEASE" "$OLD_RELEASE" "$OLD_RELEASE"-{updates,security} || return 1
  fi
  fetch_userland old "$OLD_RELEASE" "$OLD_RELEASE" || return 1
  [[ -e $CACHE/userland/new/ok ]] || apt_update "$NEW_SUITE" "$NEW_SUITE" || return 1
  fetch_userland new "$NEW_SUITE" "$NEW_SUITE"
}
