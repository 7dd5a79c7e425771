package node

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DistrustsOldData tells whether connection tracking of this kernel takes TCP
// packets for invalid that merely come late. Linux does not since 6.1 (commit
// 6e250dcbff1d).
func DistrustsOldData() bool {
	release, err := Release()
	return err == nil && before61(release)
}

// Release is that of the kernel, such as "5.15.0-91-generic".
func Release() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("ask for the kernel's release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// Oldest is the oldest release that rules are made for, as for those of kube-proxy's
// nftables mode. Before, the kernel does not do all that it takes: Linux 5.10 was seen
// to let clients in whom the IPv6 source ranges of a Service do not have.
const Oldest = "5.13"

// TooOld tells whether the kernel is older than [Oldest], and its release.
func TooOld() (release string, old bool) {
	release, err := Release()
	return release, err == nil && before(release, 5, 13)
}

// before61 tells whether a release is older than Linux 6.1.
func before61(release string) bool { return before(release, 6, 1) }

// before compares a release such as "5.15.0-91-generic".
func before(release string, major, minor int) bool {
	var ofIt, alsoOfIt int
	if _, err := fmt.Sscanf(release, "%d.%d", &ofIt, &alsoOfIt); err != nil {
		return false
	}
	return ofIt < major || ofIt == major && alsoOfIt < minor
}
