package main

import (
	"fmt"
	stdsync "sync"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync/cluster"
	"kube-vmap/sync/health"
)

// healthReport returns a function that collects the health of this process from its parts.
// It does not wait for the loop, which may wait for the kernel.
func (p *proxy) healthReport(h *health.Health) func() (*nodestatus.Health, error) {
	var mu stdsync.Mutex // guards the kernel
	return func() (*nodestatus.Health, error) {
		loop := h.Loop()
		out := &nodestatus.Health{
			Started: p.started, Source: p.config.Source(),
			Sync: nodestatus.Sync{
				Last: loop.Synced, FailingSince: loop.FailingSince, Error: errorText(loop.Err),
				PendingSince: loop.PendingSince, Overdue: loop.Overdue,
			},
			Refused: nodestatus.Refused{Ports: loop.QuarantinedPorts, Objects: loop.InvalidObjects, Conflicts: loop.Conflicts},
			Repairs: nodestatus.Count{Count: loop.Repairs, Last: loop.Repaired},
			Protect: p.loop.Rules.Protect, FastPath: p.fastPathStatus(),
		}
		out.Warnings = p.ring.warnings.summary()
		if out.Takeover.State = p.takeover.State(); out.Takeover.State != takeover.StateReturned {
			out.Positions = positions(p.source)
		}
		for _, problem := range p.takeover.Problems() {
			out.Takeover.Text = problem.Text
		}
		mu.Lock()
		defer mu.Unlock()
		headers, err := p.kernels.health.ReadHeaders()
		if err != nil {
			return out, fmt.Errorf("read the tables: %w", err)
		}
		out.Tables = tableStates(headers)
		return out, nil
	}
}

// positions returns how far a source has followed the API server; nil for manifests.
func positions(source any) (out []nodestatus.Position) {
	s, ok := source.(*cluster.Source)
	if !ok {
		return nil
	}
	for _, p := range s.Positions() {
		out = append(out, nodestatus.Position{
			Kind: p.Kind, ResourceVersion: p.ResourceVersion, FailingSince: p.FailingSince, Error: errorText(p.Err),
		})
	}
	return out
}

func tableStates(t nft.Tables) (out []nodestatus.Table) {
	for _, f := range model.Families {
		state := nodestatus.TableOpen
		switch {
		case t[f] == nil:
			state = nodestatus.TableMissing
		case t[f].Foreign:
			state = nodestatus.TableForeign
		case t[f].Dormant:
			state = nodestatus.TableDormant
		case t[f].Owner != 0:
			state = nodestatus.TableOwned
		}
		out = append(out, nodestatus.Table{Family: f.String(), State: state})
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
