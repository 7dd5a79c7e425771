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
// tables that belong to a process exist since Linux 6.9.
func DropUnsupported(k *kernel.Kernel, rules *nft.Config) error {
	if !rules.Protect {
		return nil
	}
	supported, err := k.SupportsOwner()
	rules.Protect = supported
	return err
}
