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

// before61 reads a release such as "5.15.0-91-generic".
func before61(release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < 6 || major == 6 && minor < 1
}
