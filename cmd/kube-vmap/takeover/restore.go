package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/sync/follow/passivehealth"
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

// A RefusedError is why our rules must not be removed: nothing would take their place.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string {
	return e.Reason + ": without kube-vmap's rules, Services would not work on this node; " +
		"start kube-proxy here, wait until it has written its rules and try again, " +
		"or remove kube-vmap's rules anyway with \"kube-vmap cleanup --force\""
}

// checkReplacement returns a [RefusedError] unless kube-proxy's rules can take the place of
// ours: they exist in each family that has Services, and a sample of addresses that answer now
// answers through them, too. For that, connections from one source port pass them for a moment
// and not ours. Nothing else changes.
func checkReplacement(ctx context.Context, k Kernel, ours nft.Tables) error {
	installed := ours.Installed()
	served := [len(model.Families)]bool{}
	for i := range installed {
		f := &installed[i]
		served[f.Match.Family] = served[f.Match.Family] || len(f.Cluster)+len(f.Local) > 0
	}
	r, err := findRules()
	if err != nil {
		return err
	}
	theirs := r.families()
	for _, f := range model.Families {
		if served[f] && (!theirs[f] || !r.serve()) {
			return &RefusedError{fmt.Sprintf("kube-proxy has no rules for %s here", f)}
		}
	}
	t := &Takeover{dial: connect}
	sample := t.working(ctx, installedTargets(installed))
	if len(sample) == 0 {
		return nil
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	trial := func(f *kubeproxy.Found, ours []kubeproxy.Part) nft.Batch { return f.Trial(ours, port) }
	if err := changeTrial(k, trial); err != nil {
		return err
	}
	failed := missing(ctx, sample, port)
	if len(failed) == 0 && ctx.Err() == nil {
		return nil
	}
	err = changeTrial(k, (*kubeproxy.Found).EndTrial)
	if ctx.Err() != nil { // without an answer, nothing is known
		return errors.Join(fmt.Errorf("check kube-proxy's rules: %w", ctx.Err()), err)
	}
	first := failed[0]
	return errors.Join(&RefusedError{fmt.Sprintf(
		"%d of %d addresses do not answer through kube-proxy's rules, such as %s at %s (%v)",
		len(failed), len(sample), first.service, first.at, first.err)}, err)
}

// changeTrial commits a change of the chains of kube-proxy and of ours.
func changeTrial(k Kernel, change func(f *kubeproxy.Found, ours []kubeproxy.Part) nft.Batch) error {
	for range maxAttempts {
		found, err := kubeproxy.Find(0)
		if err != nil {
			return err
		}
		ours, err := kubeproxy.FindOurs(0)
		if err != nil {
			return err
		}
		if _, err = k.Apply(change(found, ours)); !errors.Is(err, unix.ERESTART) {
			return err
		}
	}
	return errTooFast
}

// missing returns the targets of a sample that do not answer connections from a source port, if
// they are more than half or one is the API server's: some may have had other endpoints when
// kube-proxy's rules were written.
func missing(ctx context.Context, sample []target, port uint16) []failure {
	failed := failures(ctx, sample, func(s target) error {
		return repeated(func() error { return connectFrom(ctx, port, s.at) })
	})
	important := slices.ContainsFunc(failed, func(f failure) bool { return f.service.ServiceName == kubernetes })
	if important || 2*len(failed) > len(sample) {
		return failed
	}
	return nil
}

// connectFrom connects from a source port, and closes the connection so that the port can be
// used again immediately.
func connectFrom(ctx context.Context, port uint16, to netip.AddrPort) error {
	return dial(ctx, to, net.Dialer{
		LocalAddr: &net.TCPAddr{Port: int(port)},
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			reuse := func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }
			return errors.Join(passivehealth.HalfOpen("", "", c), c.Control(reuse), err)
		},
	})
}

// firstTrialPort is above the ports from which Linux connects by default (ip_local_port_range): a
// client with the same source port would pass kube-proxy's rules, too, and these may lead nowhere.
const firstTrialPort = 61000

// freePort returns a port that no client of the node or its pods is likely to connect from.
func freePort() (port uint16, err error) {
	for range maxAttempts {
		port = uint16(firstTrialPort + rand.IntN(1<<16-firstTrialPort))
		var l net.Listener
		if l, err = net.ListenTCP("tcp", &net.TCPAddr{Port: int(port)}); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}
