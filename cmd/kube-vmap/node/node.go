// Package node prepares the node as kube-proxy does: the size of the connection tracking
// table and its timeouts, and how the kernel treats the process when memory runs out. It
// also opens the kernel, and checks what it supports.
//
// A sysctl is written only if it differs, so a process that may not write, in a
// container with a read-only /proc/sys, works on a node that is set up already:
//
//	value found      writable         not writable
//	as wanted        nothing to do    nothing to do
//	other            written          an error with the remedy, or a line in the log
//	a larger limit   written          left as it is
//
// Two limits belong to the whole machine: no process in another network namespace than the
// first may write them, as on nodes of kind and of rootless clusters. There they are left
// as they are, with a line in the log.
package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
)

// CallsOldDataInvalid reports whether connection tracking of this kernel calls late TCP
// packets invalid. Linux does not since 6.1 (commit 6e250dcbff1d).
func CallsOldDataInvalid() bool {
	release, err := Release()
	return err == nil && before(release, 6, 1)
}

// Release returns the kernel release, such as "5.15.0-91-generic".
func Release() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", fmt.Errorf("read the kernel release: %w", err)
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}

// Oldest is the oldest supported release, as for kube-proxy's nftables mode. Older kernels
// accept rules that they do not implement: Linux 5.10 let clients in that are outside the
// IPv6 source ranges of a Service.
const Oldest = "5.13"

// TooOld reports whether the kernel is older than [Oldest], and its release.
func TooOld() (release string, old bool) {
	release, err := Release()
	return release, err == nil && before(release, 5, 13)
}

// before reports whether a release such as "5.15.0-91-generic" is older.
func before(release string, major, minor int) bool {
	var ownMajor, ownMinor int
	if _, err := fmt.Sscanf(release, "%d.%d", &ownMajor, &ownMinor); err != nil {
		return false
	}
	return ownMajor < major || ownMajor == major && ownMinor < minor
}

// WithKernel opens the kernel while a function runs.
func WithKernel(do func(*kernel.Kernel) error) (err error) {
	k, err := kernel.Open(kernel.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }()
	return do(k)
}

// DropUnsupported removes from a rule set's configuration what the kernel cannot do: tables that
// belong to a process exist since Linux 6.9, and labels of connections are an option of the kernel.
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

// SetOOMScoreAdj sets how likely the kernel kills this process when memory runs out: from
// -1000, never, to 1000. Lowering it needs CAP_SYS_RESOURCE. As in kube-proxy, an error is
// no reason to end.
func SetOOMScoreAdj(adj int) error {
	h := host{root: "/", write: os.WriteFile}
	return h.setOOMScoreAdj(adj)
}

func (h *host) setOOMScoreAdj(adj int) error {
	path := filepath.Join(h.root, "proc/self/oom_score_adj")
	is, _, err := readNumber(path)
	if err != nil {
		return fmt.Errorf("read oom_score_adj: %w", err)
	}
	if is == adj {
		return nil
	}
	if err := h.write(path, []byte(strconv.Itoa(adj)), 0); err != nil {
		return fmt.Errorf("set oom_score_adj, which is %d, to %d (lower values need CAP_SYS_RESOURCE): %w", is, adj, err)
	}
	return nil
}
