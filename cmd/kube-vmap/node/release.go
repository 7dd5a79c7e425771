package node

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DistrustsOldData reports whether connection tracking of this kernel calls late TCP
// packets invalid. Linux does not since 6.1 (commit 6e250dcbff1d).
func DistrustsOldData() bool {
	release, err := Release()
	return err == nil && before61(release)
}

// Release returns the kernel release, such as "5.15.0-91-generic".
func Release() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("read the kernel release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// Oldest is the oldest supported release, as for kube-proxy's nftables mode. Older kernels
// accept rules that they do not implement: Linux 5.10 let clients in that are outside the
// IPv6 source ranges of a Service.
const Oldest = "5.13"

// TooOld reports whether the kernel is older than [Oldest], and its release.
func TooOld() (release string, old bool) {
	release, err := Release()
	return release, err == nil && before(release, 5, 13)
}

// before61 reports whether a release is older than Linux 6.1.
func before61(release string) bool { return before(release, 6, 1) }

// before reports whether a release such as "5.15.0-91-generic" is older.
func before(release string, major, minor int) bool {
	var ownMajor, ownMinor int
	if _, err := fmt.Sscanf(release, "%d.%d", &ownMajor, &ownMinor); err != nil {
		return false
	}
	return ownMajor < major || ownMajor == major && ownMinor < minor
}
