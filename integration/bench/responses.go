package main

import (
	"context"
	"fmt"
	"time"

	statusobserve "kube-vmap/cmd/inspect/status/observe"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
)

// responses measures what it costs to observe once whether endpoints respond, beside many
// tracked connections that were counted. That costs nothing while nothing is observed.
func (b *bench) responses() error {
	s := b.Section(fmt.Sprintf("kube-vmap problems beside %d tracked connections", trackedEntries),
		"observed", "CPU")
	return inSandbox(func(box *sandbox) error {
		if err := track(box.raw, trackedEntries, 1); err != nil {
			return err
		}
		const window = 3 * time.Second
		tracking := conntrack.New(conntrack.Config{NetNS: box.host.FD()})
		began := cpuOfProcess()
		list, err := statusobserve.Responses(context.Background(), tracking, countedPairs{}, window)
		used := cpuOfProcess().since(began).all()
		if err != nil {
			return err
		}
		for _, r := range list { // without an answer, since no packet was sent
			if r.Refused > 0 {
				return fmt.Errorf("%s seems to refuse", r.Endpoint)
			}
		}
		s.Add(window, used)
		return nil
	})
}

// countedPairs are counters that do not change.
type countedPairs struct{}

// Connections implements [statusobserve.Counter].
func (countedPairs) Connections(f model.Family) ([]nft.ConnectionCount, error) {
	if f != model.IPv4 {
		return nil, nil
	}
	list := make([]nft.ConnectionCount, 10)
	for i := range list {
		to := model.Match{Family: f, Addr: trackedService.Addr(), Protocol: model.TCP, Port: trackedService.Port()}
		list[i] = nft.ConnectionCount{Destination: to, Endpoint: trackedEndpoint(i), Connections: trackedEntries / 10}
	}
	return list, nil
}
