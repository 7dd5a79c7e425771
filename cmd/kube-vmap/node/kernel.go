package node

import (
	"errors"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// WithKernel opens the kernel while a function runs.
func WithKernel(do func(*kernel.Kernel) error) (err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return do(k)
}

// DropUnsupported removes from a rule set's configuration what the kernel cannot do:
// tables that belong to a process exist since Linux 6.9, and labels of connections are an
// option of the kernel.
func DropUnsupported(k *kernel.Kernel, rules *nft.Config) error {
	labels, err := k.SupportsLabels()
	if err != nil {
		return err
	}
	rules.NoLabels = !labels
	if !rules.Protect {
		return nil
	}
	rules.Protect, err = k.SupportsOwner()
	return err
}
