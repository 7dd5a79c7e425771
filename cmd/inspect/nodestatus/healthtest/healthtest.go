// Package healthtest has documents of nodes for tests.
package healthtest

import (
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
)

// Now is the time of [Document].
var Now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Document returns the document of a node without problems, which has seen everything up to version
// 1000, with changes.
func Document(change ...func(d *nodestatus.Document, h *nodestatus.Health)) *nodestatus.Document {
	d := &nodestatus.Document{Node: "node-1", Version: "v1.2.3", Ready: true, Time: Now, Health: &nodestatus.Health{
		Started:   Now.Add(-26 * time.Hour),
		Positions: []nodestatus.Position{{Kind: "Service", ResourceVersion: "1000"}, {Kind: "EndpointSlice", ResourceVersion: "1000"}},
		Sync:      nodestatus.Sync{Last: Now.Add(-time.Minute)},
		Tables:    []nodestatus.Table{{Family: "IPv4", State: nodestatus.TableOwned}, {Family: "IPv6", State: nodestatus.TableOwned}},
		Takeover:  nodestatus.Takeover{State: nodestatus.TakeoverDone},
	}}
	for _, f := range change {
		f(d, d.Health)
	}
	return d
}
