package conntrack

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/socket"
)

// isUnsupported reports whether the kernel may not support the filter of a list. It answers
// the same if it lacks ctnetlink, which shows when it is asked without a filter.
func isUnsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// explainError adds to an error of the kernel what it means here.
func explainError(err error) error {
	switch {
	case isUnsupported(err):
		return fmt.Errorf("the kernel lacks connection tracking's netlink (CONFIG_NF_CT_NETLINK): %w", err)
	case errors.Is(err, unix.EINTR):
		return fmt.Errorf("interrupted each time by changes of the table: %w", err)
	case errors.Is(err, unix.ENOBUFS):
		return fmt.Errorf("the kernel had no room for its answers: %w", err)
	}
	return socket.ExplainPermission(err, "use connection tracking")
}
