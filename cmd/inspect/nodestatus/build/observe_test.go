package build

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/conntrack"
)

// fakeKernel answers the n-th read with the n-th list, and later ones with the last.
type fakeKernel struct {
	tracked [][]conntrack.Entry
	counted [][]nft.ConnectionCount
	err     error
}

func (k *fakeKernel) EachTranslated(begin func(), fn func(conntrack.Entry)) error {
	begin()
	fn(conntrack.Entry{ID: 99}) // of a dump that was interrupted
	begin()
	for _, e := range next(&k.tracked) {
		fn(e)
	}
	return k.err
}

func (k *fakeKernel) Connections(f model.Family) ([]nft.ConnectionCount, error) {
	if f != model.IPv4 {
		return nil, k.err
	}
	return next(&k.counted), k.err
}

func (*fakeKernel) Uncounted(model.Family) ([]model.Match, error)     { return nil, nil }
func (*fakeKernel) Refusals(model.Family) ([]nft.RefusalCount, error) { return nil, nil }

func next[T any](lists *[]T) (first T) {
	first = (*lists)[0]
	if len(*lists) > 1 {
		*lists = (*lists)[1:]
	}
	return first
}

var (
	frontend = netip.MustParseAddrPort("10.96.0.10:80")
	podAddr  = netip.MustParseAddrPort("10.244.1.2:8080")
)

func tracked(id uint32, p model.Protocol, replied, aborted bool) conntrack.Entry {
	return conntrack.Entry{
		Protocol: p, Original: frontend, Reply: podAddr, ID: id, Replied: replied, Aborted: aborted,
	}
}

func counted(n uint64, p model.Protocol) []nft.ConnectionCount {
	return []nft.ConnectionCount{{
		Destination: model.Match{Addr: frontend.Addr(), Protocol: p, Port: frontend.Port()}, Endpoint: podAddr, Connections: n,
	}}
}

func TestResponses(t *testing.T) {
	type list = []conntrack.Entry
	for name, test := range map[string]struct {
		protocol            model.Protocol
		before, after       list
		counted, now        uint64
		refused, unanswered int
	}{
		"counted, and gone":                {model.TCP, nil, nil, 7, 9, 2, 0},
		"the first ones, and gone":         {model.TCP, nil, nil, 0, 3, 3, 0},
		"many that were only missing":      {model.TCP, nil, nil, 0, 5000, 0, 0},
		"counted from zero again":          {model.TCP, nil, nil, 9, 2, 0, 0},
		"counted, and tracked":             {model.TCP, nil, list{tracked(1, model.TCP, true, false)}, 7, 8, 0, 0},
		"some accepted":                    {model.TCP, nil, list{tracked(1, model.TCP, true, false)}, 7, 9, 0, 0},
		"some still waiting":               {model.TCP, nil, list{tracked(1, model.TCP, false, false)}, 7, 9, 1, 0},
		"refused, and an open one":         {model.TCP, list{tracked(1, model.TCP, true, false)}, list{tracked(1, model.TCP, true, false)}, 7, 9, 2, 0},
		"nothing new":                      {model.TCP, nil, nil, 7, 7, 0, 0},
		"an end of UDP":                    {model.UDP, nil, nil, 7, 9, 0, 0},
		"no answer":                        {model.UDP, list{tracked(1, model.UDP, false, false)}, list{tracked(1, model.UDP, false, false)}, 7, 7, 0, 1},
		"an answer meanwhile":              {model.UDP, list{tracked(1, model.UDP, false, false)}, list{tracked(1, model.UDP, true, false)}, 7, 7, 0, 0},
		"too young for an answer":          {model.UDP, nil, list{tracked(1, model.UDP, false, false)}, 7, 8, 0, 0},
		"aborted":                          {model.SCTP, nil, list{tracked(1, model.SCTP, true, true), tracked(2, model.SCTP, true, true)}, 7, 9, 2, 0},
		"established, then ended, by SCTP": {model.SCTP, nil, list{tracked(1, model.SCTP, true, false)}, 7, 8, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &fakeKernel{tracked: []list{test.before, test.after}, counted: [][]nft.ConnectionCount{counted(test.counted, test.protocol), counted(test.now, test.protocol)}}
			if test.counted == 0 {
				k.counted[0] = nil
			}
			got, err := Observe(t.Context(), k, k, time.Second)
			var want []Response
			if test.refused+test.unanswered > 0 {
				want = []Response{{counted(0, test.protocol)[0].Destination, podAddr, test.refused, test.unanswered}}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
			}
		})
	}
}

func TestResponsesAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKernel{tracked: [][]conntrack.Entry{nil}}
		for _, n := range []uint64{1, 3, 3, 4} { // two reads for each window
			k.counted = append(k.counted, counted(n, model.TCP))
		}
		began := time.Now()
		got, err := Observe(t.Context(), k, k, 2*window)
		if err != nil || len(got) != 1 || got[0].Refused != 3 || time.Since(began) != 2*window {
			t.Errorf("got %+v, %v after %s", got, err, time.Since(began))
		}
		if _, err := Observe(t.Context(), k, k, time.Hour); err != nil || time.Since(began) != 2*window+nodestatus.MaxObserved {
			t.Errorf("an hour took until %s, %v", time.Since(began), err)
		}
	})
}

func TestResponsesEndWithTheContextAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		k := &fakeKernel{tracked: [][]conntrack.Entry{nil}, counted: [][]nft.ConnectionCount{nil}}
		if _, err := Observe(ctx, k, k, time.Second); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		k.err = errors.New("no permission")
		if _, err := Observe(t.Context(), k, k, time.Second); !errors.Is(err, k.err) {
			t.Errorf("refused: %v", err)
		}
	})
}
