package kernel

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
)

// probeTable is the name of the table in which the kernel is asked to try what
// it can do. The transaction is never committed, so the table never exists.
const probeTable = "kube-vmap-probe"

// Probe asks the kernel to try everything that a rule set needs and says in one
// line what is missing: permission, nf_tables, or one of its parts.
func (k *Kernel) Probe(c nft.Config) error {
	return explainProbe(k.check(nft.Sample(c), probeTable))
}

// SupportsOwner reports whether the kernel lets a table belong to a socket and keeps it
// when that closes (table flags owner and persist; Linux 6.9, da5141bbe0c2).
func (k *Kernel) SupportsOwner() (bool, error) {
	err := k.check(nft.Batch{nft.AddTable{Protected: true}}, probeTable)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return false, nil
	}
	return err == nil, explainProbe(err)
}

// explainProbe says what the answer to the probe means.
func explainProbe(err error) error {
	var refusal *nft.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return permission(err)
	case errors.As(err, &refusal):
		return fmt.Errorf("the kernel lacks %s: %w", refusal.Missing(), refusal.Errno)
	}
	return fmt.Errorf("try nftables: %w", err)
}

// permission says what to do where permission is missing; other errors stay as
// they are.
func permission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no permission to program nftables; run as root or with CAP_NET_ADMIN: %w", err)
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
