package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/kube-vmap/config"
	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/nft/kernel"
	"kube-vmap/sync/serve/health"
	"kube-vmap/sync/source/cluster"
)

func (p *proxy) newTakeover() *takeover.Takeover {
	return takeover.New(takeover.Config{
		NodeName: p.loop.NodeName, Ports: p.config.ProxyPorts(), ExcludeCIDRs: p.config.ExcludeCIDRs(),
		Probation: p.config.Probation,
		Marker: takeover.Marker{
			Always: p.config.KubeProxyMarker == config.MarkerAlways, Never: p.config.KubeProxyMarker == config.MarkerNever,
			NFTables: p.config.NFTablesIsSet(),
		},
		Kernel: p.handles.take(), Recorder: p.loop.Recorder, Log: p.log,
	})
}

// end returns the error with which the process ends; the loop has ended. If the take-over failed,
// it returns the node to kube-proxy, and stays to report that.
func (p *proxy) end(ctx context.Context, k *kernel.Kernel, err error, h *health.Health, yield func()) error {
	var failure *takeover.FailedError
	if !errors.As(err, &failure) {
		p.log.Info("stopped, the rules stay")
		return err
	}
	if !failure.Returned {
		done, e := takeover.Return(k, failure.Reason)
		if e != nil {
			p.log.Error("take-over failed, and the node cannot be returned to kube-proxy; the rules stay", "reason",
				failure.Reason, "err", e)
			return err
		}
		failure.Now = p.takeover.AskAgain(ctx, failure)
		p.log.Error("take-over failed, node returned to kube-proxy", "reason", failure.Reason, "now", failure.Now,
			"rules", done.Resumed, "removed", done.Tables)
	}
	h.Stop("this node was returned to kube-proxy")
	p.reportFailure(ctx, cluster.ReasonTakeover, failure.Error())
	return p.takeover.Stay(ctx, failure, yield)
}

// reportFailure sends an event about an error that ends the process. The other tasks have
// ended or end now; the event still needs some time.
func (p *proxy) reportFailure(ctx context.Context, reason, text string) {
	if p.events == nil {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureEventTimeout)
	defer cancel()
	if err := p.events.FailedToStart(last, reason, text); err != nil {
		p.log.Warn("cannot send the event about the failure", "err", err)
	}
}

// cleanup deletes our tables, whatever their content, and resumes kube-proxy's rules if they
// are suspended. It logs which there were. Without force it refuses if nothing would serve then.
func cleanup(ctx context.Context, log *slog.Logger, force bool) error {
	return node.WithKernel(func(k *kernel.Kernel) error {
		state, _ := kubeproxy.ReadTakeoverState(0) // only logged
		done, err := takeover.Cleanup(ctx, k, force)
		var refused *takeover.RefusedError
		switch {
		case errors.As(err, &refused):
			return &exit.Error{Code: exit.Refused, Err: err}
		case errors.Is(err, fs.ErrPermission):
			tables, _ := k.Read()
			return cmp.Or(tables.Writable(), err) // another process may own the tables
		case err != nil:
			return err
		}
		if len(done.Tables) > 0 {
			log.Info("tables removed", "tables", done.Tables)
		} else if state == "" {
			log.Info("nothing to remove: this network namespace has no table of kube-vmap")
		}
		if state != "" {
			log.Info("state of the take-over removed", "removed", state)
		}
		if len(done.Resumed) > 0 {
			log.Info("resumed kube-proxy's rules", "rules", done.Resumed)
		}
		return nil
	})
}
