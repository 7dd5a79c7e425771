package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/pathcheck"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/foreign/livenode"
	"kube-vmap/nft/foreign/simulate"
	"kube-vmap/sync"
)

// Restored is what [Return] and [Cleanup] did.
type Restored struct {
	Tables  []string // of ours, deleted
	Resumed []string // rules of kube-proxy
}

// Return returns the node to kube-proxy: its rules are resumed, ours are deleted and the
// reason is stored, in one transaction. If kube-proxy has no rules, it is an error and
// nothing changes. The loop must have ended.
func Return(k Kernel, reason string) (Restored, error) {
	r, err := (*node)(nil).find()
	if err != nil {
		return Restored{}, err
	}
	if !r.serve() {
		return Restored{}, errors.New("kube-proxy's rules no longer exist")
	}
	returned := storedState{returned: formatTime(time.Now()) + " reason=" + reason}
	return restore(k, deleteOurs(), returned.store())
}

// Cleanup deletes our tables, whatever their content, the marker and the stored state, and
// resumes what is suspended of kube-proxy's rules, in one transaction. It returns a
// [RefusedError] if kube-proxy's rules cannot take the place of ours, unless force is set
// or this proxy has a name: then kube-proxy never serves its Services.
func Cleanup(ctx context.Context, k ReadKernel, force bool) (Restored, error) {
	if !force && model.ProxyName() == "" {
		ours, err := k.Read()
		if err == nil {
			err = ours.Writable()
		}
		if err == nil {
			err = checkReplacement(ctx, ours.Installed())
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
		found, err := &kubeproxy.Found{}, error(nil)
		if model.ProxyName() == "" {
			found, err = kubeproxy.Find(0)
		}
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
			done := Restored{Resumed: names(found.Suspended())}
			for _, op := range ours {
				done.Tables = append(done.Tables, nft.FamilyName(op.(nft.DeleteTable).Family)+" "+nft.TableName())
			}
			return done, nil
		case isOurs && errors.Is(err, fs.ErrNotExist):
			ours = slices.DeleteFunc(ours, func(op nft.Op) bool { return op == nft.Op(missing) })
		case errors.Is(err, unix.ERESTART): // another program committed since the read
		default:
			return Restored{}, err
		}
	}
	return Restored{}, fmt.Errorf("other programs change nf_tables too fast: %w", unix.ERESTART)
}

// A RefusedError is why our rules must not be removed: nothing would take their place.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string {
	return e.Reason + ": without kube-vmap's rules, Services would not work on this node; " +
		"start kube-proxy here, wait until it has written its rules and try again, " +
		"or remove kube-vmap's rules anyway with \"kube-vmap cleanup --force\""
}

// checkReplacement returns a [RefusedError] unless kube-proxy's rules can take the place of
// ours: they exist in each family that has Services, and deliver simulated packets from the node to
// a sample of ClusterIPs.
func checkReplacement(ctx context.Context, ours []nft.InstalledFrontend) error {
	served := [len(model.Families)]bool{}
	for i := range ours {
		f := &ours[i]
		served[f.Match.Family] = served[f.Match.Family] || len(f.Cluster)+len(f.Local) > 0
	}
	r, err := (*node)(nil).find()
	if err != nil {
		return err
	}
	theirs := r.families()
	for _, f := range model.Families {
		if served[f] && (!theirs[f] || !r.serve()) {
			return &RefusedError{fmt.Sprintf("kube-proxy has no rules for %s here", f)}
		}
	}
	if r.nft.IPVS || len(r.legacy) > 0 { // neither can be simulated
		return nil
	}
	sample := choose(installedTargets(ours))
	var packets []pathcheck.Packet
	for _, s := range sample {
		packets = append(packets, pathcheck.Packet{
			Packet: simulate.Packet{From: pathcheck.Source(s.at), To: s.at, Protocol: model.TCP},
			Name:   fmt.Sprintf("from this node to %s at %s", s.service, s.at),
		})
	}
	choose := func(*livenode.Network) []pathcheck.Packet { return packets }
	now, err := pathcheck.Simulate(livenode.Config{Interrupted: ctx.Err}, choose)
	if err != nil {
		return fmt.Errorf("check our rules: %w", err)
	}
	then, err := pathcheck.Simulate(before(r, ctx.Err), choose)
	if err != nil {
		return fmt.Errorf("check kube-proxy's rules: %w", err)
	}
	// Some may have had other endpoints when kube-proxy's rules were written.
	var failed []string
	delivered, important := 0, false
	for i, n := range now {
		serves := func(e netip.AddrPort) bool { return slices.Contains(n.Endpoints, e) }
		if n.State != pathcheck.Delivered {
			continue
		}
		if delivered++; then[i].State != pathcheck.Delivered || !slices.ContainsFunc(then[i].Endpoints, serves) {
			failed, important = append(failed, then[i].Text), important || sample[i].service.ServiceName == kubernetes
		}
	}
	if !important && 2*len(failed) <= delivered {
		return nil
	}
	return &RefusedError{fmt.Sprintf("kube-proxy's rules do not serve %d of %d addresses, such as %s",
		len(failed), delivered, failed[0])}
}

// AskAgain returns whether the addresses that failed answer through kube-proxy's rules, after
// [Return]. If one does not, no rule of ours is the reason: kube-proxy has the same fault. It is
// empty if no address failed, or ctx has ended.
func (t *Takeover) AskAgain(ctx context.Context, f *FailedError) string {
	if len(f.failed) == 0 {
		return ""
	}
	var all []target
	for _, f := range f.failed {
		all = append(all, f.target)
	}
	still := failures(ctx, all, func(s target) error {
		return repeated(func() error { return t.dial(ctx, s.at) })
	})
	switch {
	case ctx.Err() != nil:
		return ""
	case len(still) == 0:
		return "through kube-proxy's rules they answer now"
	}
	first := still[0]
	return fmt.Sprintf("%s at %s does not answer through kube-proxy's rules either (%v): kube-vmap explain shows why",
		first.service, first.at, first.err)
}

// Stay reports that the node was returned, and what kube-proxy does, until ctx ends. It calls yield
// when kube-proxy seems to run, which wants our ports. The error is that "kube-vmap cleanup" has
// allowed another attempt. Call it after Run or Start has returned the failure.
func (t *Takeover) Stay(ctx context.Context, failure *FailedError, yield func()) error {
	t.stored = storedState{returned: failure.Reason} // Stopped keeps it
	var before rules
	for ctx.Err() == nil {
		if s, err := t.system.readState(); err == nil && s.returned == "" {
			// It ends the process, so the next one tries again.
			return errors.New("the mark of the failed take-over was removed: starting again takes over")
		}
		start := time.Now()
		now, err := t.system.find()
		if err == nil && before.nft != nil && before.nft.Content != now.nft.Content {
			t.awakeUntil = time.Now().Add(awakePeriod)
		}
		why, otherErr := t.running()
		text := failure.Error() + "; " + whatKubeProxyDoes(now, why, err, otherErr) +
			`. "kube-vmap cleanup" allows another attempt`
		if t.publish(nodestatus.TakeoverReturned, "this node was returned to kube-proxy", text) {
			t.Log.Warn("kube-vmap does nothing on this node", "reason", text)
		}
		if why != "" {
			yield()
		}
		if err == nil {
			before = now
		}
		sync.Sleep(ctx, max(pollPeriod, min(readShare*time.Since(start), maxReadPeriod)))
	}
	return nil
}

// whatKubeProxyDoes returns that, by its rules, and why it seems to run; empty if it does not.
func whatKubeProxyDoes(r rules, running string, err, otherErr error) string {
	switch {
	case err != nil:
		return "kube-proxy's rules cannot be read: " + err.Error()
	case !r.serve():
		return "kube-proxy has no rules here, so Services do not work"
	case running != "":
		return "kube-proxy's rules are in effect, and it seems to run: " + running
	case otherErr != nil:
		return "kube-proxy's rules are in effect; cannot read whether it runs: " + otherErr.Error()
	}
	return "kube-proxy's rules are in effect, and follow no changes until it runs"
}
