package lab_test

import "golang.org/x/sys/unix"

// dropPrivileges takes all capabilities from the calling thread alone.
func dropPrivileges() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
