package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kubeproxy"
)

// Restored is what [Return] and [Cleanup] did.
type Restored struct {
	Tables  []string // of ours, deleted
	Resumed []string // rules of kube-proxy
}

// errNothingToResume means that our rules are the only ones.
var errNothingToResume = errors.New("kube-proxy's rules do not exist any more")

// Return returns the node to kube-proxy: its rules are resumed, ours are deleted and the
// reason is stored, in one transaction. If kube-proxy has no rules, it is an error and
// nothing changes. The loop must have ended.
func Return(k Kernel, reason string) (Restored, error) {
	r, err := findRules()
	if err != nil {
		return Restored{}, err
	}
	if !r.serve() {
		return Restored{}, errNothingToResume
	}
	return restore(k, deleteOurs(), storeReturned(time.Now(), reason))
}

// Cleanup deletes our tables, whatever their content, the marker and the stored state, and
// resumes what is suspended of kube-proxy's rules, in one transaction. It returns a
// [RefusedError] if kube-proxy's rules cannot take the place of ours, unless force is set.
func Cleanup(ctx context.Context, k ReadKernel, force bool) (Restored, error) {
	if !force {
		ours, err := k.Read()
		if err == nil {
			err = ours.Writable()
		}
		if err == nil {
			err = checkReplacement(ctx, k, ours)
		}
		if err != nil {
			return Restored{}, err
		}
	}
	text, err := kubeproxy.ReadTakeoverState(0)
	if err != nil {
		return Restored{}, err
	}
	var forget nft.Batch
	if text != "" {
		forget = kubeproxy.DeleteTakeoverState()
	}
	return restore(k, deleteOurs(), forget)
}

// A ReadKernel also reads our tables.
type ReadKernel interface {
	Kernel
	Read() (nft.Tables, error)
}

var errTooFast = fmt.Errorf("other programs change nf_tables too fast: %w", unix.ERESTART)

// maxAttempts is how often a transaction is tried while other programs commit.
const maxAttempts = 100

func deleteOurs() (b nft.Batch) {
	for _, f := range model.Families {
		b = append(b, nft.DeleteTable{Family: f})
	}
	return b
}

// restore resumes kube-proxy's rules and deletes tables of ours, if they exist, in one
// transaction with more.
func restore(k Kernel, ours, more nft.Batch) (Restored, error) {
	for range maxAttempts {
		found, err := kubeproxy.Find(0)
		if err != nil {
			return Restored{}, err
		}
		b := slices.Concat(found.Resume(), found.DeleteMarkers(), ours, more)
		if len(b) == 0 {
			return Restored{}, nil
		}
		_, err = k.Apply(b)
		switch missing, isOurs := refusedOp(err).(nft.DeleteTable); {
		case err == nil:
			return Restored{tables(ours), names(found.Suspended())}, nil
		case isOurs && errors.Is(err, fs.ErrNotExist):
			ours = slices.DeleteFunc(ours, func(op nft.Op) bool { return op == nft.Op(missing) })
		case errors.Is(err, unix.ERESTART): // another program committed since the read
		default:
			return Restored{}, err
		}
	}
	return Restored{}, errTooFast
}

func tables(ours nft.Batch) (out []string) {
	for _, op := range ours {
		out = append(out, nft.FamilyName(op.(nft.DeleteTable).Family)+" "+nft.TableName)
	}
	return out
}
