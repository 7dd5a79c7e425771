package kernel

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel/socket"
	"kube-vmap/nft/wire"
)

// probeTable is the name of the table used to validate a sample in the kernel. The
// transaction is never committed, so the table never exists.
const probeTable = "kube-vmap-probe"

// Probe has the kernel validate everything that a rule set needs. The error says in one
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

// SupportsLabels reports whether connections can have labels (CONFIG_NF_CONNTRACK_LABELS).
func (k *Kernel) SupportsLabels() (bool, error) {
	return labelsSupported(k.check(nft.SampleLabels(), probeTable))
}

// labelsSupported interprets the reply to a probe of labels (nft_ct_get_init,
// nft_ct_set_init).
func labelsSupported(err error) (bool, error) {
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Expression == "ct" && errors.Is(err, unix.EOPNOTSUPP) {
		return false, nil
	}
	return err == nil, explainProbe(err)
}

// explainProbe interprets the reply to a probe.
func explainProbe(err error) error {
	var refusal *wire.Error
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

// permission adds to an error that is [fs.ErrPermission] how to get permission.
func permission(err error) error { return socket.ExplainPermission(err, "program nftables") }
