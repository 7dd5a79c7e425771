package build

import (
	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/sync/follow/hold"
)

// addWaiting adds to a document who waits for an endpoint.
func addWaiting(d *nodestatus.Document, list []hold.Waiting) {
	if len(list) == 0 {
		return
	}
	if d.Health != nil {
		d.Health.WaitingPorts = len(list)
	}
	byKey := map[string]*nodestatus.Waiting{}
	for _, w := range list {
		byKey[w.Key.String()] = &nodestatus.Waiting{Clients: w.Clients, Since: w.Since}
	}
	for _, p := range d.EachPort() {
		if len(p.Frontends) > 0 { // the ClusterIP is the first
			p.Waiting = byKey[p.Frontends[0].At(p.Protocol)]
		}
	}
}
