package conntrack

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// isUnsupported reports whether the kernel may have refused a list for its
// filter. It answers the same where it lacks everything, which shows when it is
// asked without.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// explainError says what an error of the kernel means here.
func explainError(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to use connection tracking; run as root or with CAP_NET_ADMIN: %w", err)
	case isUnsupported(err):
		return fmt.Errorf("the kernel lacks connection tracking's netlink (CONFIG_NF_CT_NETLINK): %w", err)
	case errors.Is(err, unix.EINTR):
		return fmt.Errorf("reading was interrupted each time: %w", err)
	case errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("the kernel had no room for its answers: %w", err)
	}
	return err
}

// missingSocket explains why there is no netfilter socket.
func missingSocket(err error) error {
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return fmt.Errorf("the kernel lacks netfilter's netlink (CONFIG_NETFILTER_NETLINK): %w", err)
	}
	return fmt.Errorf("open a netfilter socket: %w", err)
}
