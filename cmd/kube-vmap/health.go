package main

import (
	"fmt"
	stdsync "sync"

	"kube-vmap/cmd/inspect/status"
	"kube-vmap/cmd/kube-vmap/takeover"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync/cluster"
	"kube-vmap/sync/health"
)

// healthReport returns a function that collects the health of this process from its parts.
// It does not wait for the loop, which may wait for the kernel.
func (p *proxy) healthReport(h *health.Health) func() (*status.Health, error) {
	var mu stdsync.Mutex // guards the kernel
	return func() (*status.Health, error) {
		loop := h.Loop()
		out := &status.Health{
			Started: p.started, Source: p.config.Source(),
			Sync: status.Sync{
				Last: loop.Synced, FailingSince: loop.FailingSince, Error: errorText(loop.Err),
				PendingSince: loop.PendingSince, Overdue: loop.Overdue,
			},
			Refused: status.Refused{Ports: loop.QuarantinedPorts, Objects: loop.InvalidObjects, Conflicts: loop.Conflicts},
			Repairs: status.Count{Count: loop.Repairs, Last: loop.Repaired},
			Protect: p.loop.Rules.Protect, FastPath: p.fastPathStatus(),
		}
		logged := p.ring.Summary()
		out.Warnings = status.Count{Count: logged.Count, Last: logged.Last, Text: logged.Text}
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
func positions(source any) (out []status.Position) {
	s, ok := source.(*cluster.Source)
	if !ok {
		return nil
	}
	for _, p := range s.Positions() {
		out = append(out, status.Position{
			Kind: p.Kind, ResourceVersion: p.ResourceVersion, FailingSince: p.FailingSince, Error: errorText(p.Err),
		})
	}
	return out
}

// tableStates returns the state of our table in each family.
func tableStates(t nft.Tables) (out []status.Table) {
	for _, f := range model.Families {
		state := status.TableOpen
		switch {
		case t[f] == nil:
			state = status.TableMissing
		case t[f].Foreign:
			state = status.TableForeign
		case t[f].Dormant:
			state = status.TableDormant
		case t[f].Owner != 0:
			state = status.TableOwned
		}
		out = append(out, status.Table{Family: f.String(), State: state})
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
