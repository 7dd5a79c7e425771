package diff

import (
	"context"
	"errors"
	"fmt"
	"io"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync"
)

// errNoRules is returned before the first commit.
var errNoRules = errors.New("no rule set is programmed yet; see the last lines of the log, which kube-vmap bundle " +
	"collects")

// installed returns the rule set of a loop and its version.
func installed(ctx context.Context, loop *sync.Loop) (*nft.Ruleset, int, error) {
	rules, version, err := loop.Ruleset(ctx)
	if err == nil && rules == nil {
		err = errNoRules
	}
	return rules, version, err
}

// WriteRules writes the rule set of a loop.
func WriteRules(ctx context.Context, loop *sync.Loop, w io.Writer) error {
	rules, _, err := installed(ctx, loop)
	if err != nil {
		return err
	}
	return rules.Render(w)
}

// WriteKernel writes what the kernel holds, with the names of a loop's rules.
func WriteKernel(ctx context.Context, loop *sync.Loop, w io.Writer) error {
	rules, _, err := installed(ctx, loop)
	if err != nil {
		return err
	}
	return writeKernel(rules.Config(), w)
}

// writeKernel writes what the kernel holds, with the names of the rules that a
// configuration leads to.
func writeKernel(rules nft.Config, w io.Writer) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		tables, err := k.Read()
		if err != nil {
			return fmt.Errorf("read the kernel: %w", err)
		}
		return tables.Render(w, rules)
	})
}

// driftTries is how often the kernel is read again because the state changed
// meanwhile.
const driftTries = 10

// WriteDrift writes how the kernel differs from the rule set of a loop. A change that is
// committed between the two reads would look like a difference, so the kernel is read
// again until the rule set has the same version before and after.
func WriteDrift(ctx context.Context, loop *sync.Loop, w io.Writer) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		for range driftTries {
			rules, before, err := installed(ctx, loop)
			if err != nil {
				return err
			}
			tables, err := k.Read()
			if err != nil {
				return fmt.Errorf("read the kernel: %w", err)
			}
			if _, after, err := installed(ctx, loop); err != nil {
				return err
			} else if before == after {
				return rules.Repair(tables).Differences(w)
			}
		}
		return fmt.Errorf("the state changed during each of %d reads of the kernel; try again", driftTries)
	})
}
