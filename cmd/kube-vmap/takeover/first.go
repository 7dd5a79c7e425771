package takeover

import (
	"context"
	"errors"
	"slices"

	"kube-vmap/nft"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// LoopKernel returns the kernel for the loop: in its first batch it also suspends kube-proxy's
// rules, unless another proxy runs.
func (t *Takeover) LoopKernel(ctx context.Context, k sync.Kernel) sync.Kernel {
	return &firstCommit{Kernel: k, ctx: ctx, takeover: t}
}

type firstCommit struct {
	sync.Kernel
	ctx      context.Context //nolint:containedctx // of the process; sync.Kernel has none
	takeover *Takeover
}

// Apply implements [sync.Kernel]. If kube-proxy's rules cannot be suspended in this batch, Run
// suspends them later.
func (k *firstCommit) Apply(b nft.Batch) (a nft.Applied, err error) {
	t := k.takeover
	t.changes.add(b)
	t.mu.Lock()
	if t.phase >= phaseCommitted {
		t.mu.Unlock()
		return k.Kernel.Apply(b)
	}
	defer t.mu.Unlock()
	r, suspend := t.firstSteps(k.ctx, b)
	a, err = k.Kernel.Apply(slices.Concat(b, suspend))
	if _, theirs := refusedOp(err).(nft.ForeignChange); theirs {
		t.Log.Warn("cannot suspend kube-proxy's rules together with the first commit, trying afterwards", "err", err)
		steps := a.Steps
		a, err = k.Kernel.Apply(b)
		a.Steps += steps
	} else if err == nil && len(suspend) > 0 {
		t.logSuspended(r)
	}
	if err == nil {
		t.phase = t.phase.on(signalCommitted)
	}
	return a, err
}

// firstSteps returns kube-proxy's rules and the changes that suspend them. There are none if
// another proxy runs, or if nothing can be suspended. It takes the sample while kube-proxy's
// rules are in effect. That makes the loop wait for at most twice connectTimeout, in which those
// rules serve.
func (t *Takeover) firstSteps(ctx context.Context, b nft.Batch) (rules, nft.Batch) {
	if t.Probation == 0 || t.findOther() {
		return rules{}, nil
	}
	r, err := t.system.find()
	if err != nil {
		t.Log.Warn("cannot read kube-proxy's rules", "err", err)
		return r, nil
	}
	if len(r.nft.Awake()) == 0 {
		return r, nil
	}
	if len(t.sample) == 0 {
		t.sample = t.working(ctx, batchTargets(b))
		t.direct = t.answering(ctx, batchEndpoints(b, t.sample))
	}
	t.stored.removing = false // a kube-proxy has run since
	t.setEnd(r)
	return r, suspension(r, t.stored)
}

// refusedOp returns the change that the kernel refused; nil if err is something else.
func refusedOp(err error) nft.Op {
	var refusal *wire.Error
	if errors.As(err, &refusal) {
		return refusal.Op
	}
	return nil
}
