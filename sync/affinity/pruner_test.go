package affinity

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unique"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
	"kube-vmap/sync"
)

// kernel is a fake with affinity maps whose elements do not time out.
type kernel struct {
	maps   map[nft.SetID][]nft.Element
	gone   int // how many deletions fail because an element has timed out
	full   [len(model.Families)]uint64
	broken atomic.Bool // every call fails
	listed int
}

func (k *kernel) EachPart(id nft.SetID, fn func([]nft.Element)) error {
	if k.broken.Load() {
		return unix.ENOBUFS
	}
	if _, there := k.maps[id]; !there {
		return unix.ENOENT
	}
	k.listed++
	for part := range slices.Chunk(k.maps[id], 3) {
		fn(slices.Clone(part))
	}
	return nil
}

func (k *kernel) Apply(b nft.Batch) (nft.Applied, error) {
	op := b[0].(nft.DeleteElements)
	if k.gone > 0 {
		k.gone--
		k.maps[op.Set] = slices.DeleteFunc(k.maps[op.Set], func(e nft.Element) bool { return e == op.Elements[0] })
		return nft.Applied{}, &wire.Error{Op: op, Errno: unix.ENOENT}
	}
	k.maps[op.Set] = slices.DeleteFunc(k.maps[op.Set], func(e nft.Element) bool { return slices.Contains(op.Elements, e) })
	return nft.Applied{}, nil
}

func (k *kernel) AffinityFull(f model.Family) (uint64, error) { return k.full[f], nil }

var (
	serviceIPs = [...]netip.Addr{netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00:10:96::a")}
	podRange   = [...]netip.Addr{netip.MustParseAddr("10.244.0.0"), netip.MustParseAddr("fd00:10:244::")}
	outside    = [...]netip.Addr{netip.MustParseAddr("192.0.2.0"), netip.MustParseAddr("2001:db8::")}
)

// nth returns the n-th address after a.
func nth(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

func endpoint(f model.Family, n int) netip.AddrPort {
	return netip.AddrPortFrom(nth(podRange[f], n), 8080)
}

func match(f model.Family, p model.Protocol) model.Match {
	return model.Match{Family: f, Addr: serviceIPs[f], Protocol: p, Port: 80}
}

// owner returns the frontend of a Service with these endpoints; those below local are on
// this node.
func owner(f model.Family, p model.Protocol, affinity time.Duration, local int, endpoints ...int) model.Frontend {
	pool := &model.Pool{Key: match(f, p), Affinity: affinity}
	for _, n := range endpoints {
		pool.Cluster = append(pool.Cluster, endpoint(f, n))
		if n < local {
			pool.Local = append(pool.Local, endpoint(f, n))
		}
	}
	return model.Frontend{Match: pool.Key, Kind: model.KindClusterIP, Pool: pool}
}

// remembers returns the element of client c with endpoint e.
func remembers(f model.Family, p model.Protocol, c, e int) nft.Element {
	client := nth(outside[f], c)
	return nft.Element{
		Key: nft.Key{
			Addr: serviceIPs[f], Protocol: p, Port: 80,
			Source: unique.Make(netip.PrefixFrom(client, client.BitLen())),
		},
		Value: nft.Value{Endpoint: endpoint(f, e)},
	}
}

// run runs a Pruner in a bubble of synctest.
func run(t *testing.T, k *kernel, full func(model.Family, uint64), do func(*Pruner)) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Kernel: k, Log: slog.New(slog.DiscardHandler), Full: full})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		do(s)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// left returns the clients in a map.
func (k *kernel) left(id nft.SetID) []int {
	var out []int
	for _, e := range k.maps[id] {
		for c := range 100 {
			if e.Key.Source.Value().Addr() == nth(outside[id.Family], c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// each runs a test for every family and protocol.
func each(t *testing.T, do func(t *testing.T, f model.Family, p model.Protocol)) {
	for _, f := range model.Families {
		for _, p := range model.Protocols {
			t.Run(f.String()+"/"+p.String(), func(t *testing.T) { do(t, f, p) })
		}
	}
}

// full returns a map with five clients on the endpoints 1, 2, 3, 1, 2.
func full(f model.Family, p model.Protocol) []nft.Element {
	var out []nft.Element
	for c := range 5 {
		out = append(out, remembers(f, p, c, c%3+1))
	}
	return out
}

func TestClientsOfRemovedEndpointsAreForgotten(t *testing.T) {
	const sticky = 3 * time.Hour
	each(t, func(t *testing.T, f model.Family, p model.Protocol) {
		id := nft.SetID{Family: f, Kind: nft.SetAffinity}
		for name, test := range map[string]struct {
			next func() sync.Committed
			want []int
		}{
			"an endpoint": {
				func() sync.Committed { return sync.Committed{Set: []model.Frontend{owner(f, p, sticky, 0, 1, 3)}} }, []int{0, 2, 3},
			},
			"an endpoint, while another comes": {
				func() sync.Committed { return sync.Committed{Set: []model.Frontend{owner(f, p, sticky, 0, 2, 3, 4)}} }, []int{1, 2, 4},
			},
			"nothing: one more endpoint": {
				func() sync.Committed {
					return sync.Committed{Set: []model.Frontend{owner(f, p, sticky, 0, 1, 2, 3, 4)}}
				}, []int{0, 1, 2, 3, 4},
			},
			"the affinity": {
				func() sync.Committed { return sync.Committed{Set: []model.Frontend{owner(f, p, 0, 0, 1, 2, 3)}} }, nil,
			},
			"the Service": {
				func() sync.Committed { return sync.Committed{Gone: []model.Match{match(f, p)}} }, nil,
			},
			"nothing: it lasts longer now": {
				func() sync.Committed { return sync.Committed{Set: []model.Frontend{owner(f, p, 2*sticky, 0, 1, 2, 3)}} }, []int{0, 1, 2, 3, 4},
			},
		} {
			t.Run(name, func(t *testing.T) {
				k := &kernel{maps: map[nft.SetID][]nft.Element{id: full(f, p)}}
				run(t, k, nil, func(s *Pruner) {
					s.Follow(sync.Committed{Full: true, Set: []model.Frontend{owner(f, p, sticky, 0, 1, 2, 3)}})
					synctest.Wait()
					if got := k.left(id); len(got) != 5 {
						t.Errorf("at the start %v are left", got)
					}
					s.Follow(test.next())
				})
				if got := k.left(id); !slices.Equal(got, test.want) {
					t.Errorf("clients %v are left, want %v", got, test.want)
				}
			})
		}
	})
}

func TestStartForgetsClientsOfRemovedEndpoints(t *testing.T) {
	each(t, func(t *testing.T, f model.Family, p model.Protocol) {
		all, local := nft.SetID{Family: f, Kind: nft.SetAffinity}, nft.SetID{Family: f, Kind: nft.SetAffinity, Local: true}
		k := &kernel{maps: map[nft.SetID][]nft.Element{all: full(f, p), local: full(f, p)}}
		run(t, k, nil, func(s *Pruner) {
			s.Follow(sync.Committed{Full: true, Set: []model.Frontend{owner(f, p, time.Hour, 2, 1, 3)}})
		})
		if got := k.left(all); !slices.Equal(got, []int{0, 2, 3}) {
			t.Errorf("clients %v are left", got)
		}
		if got := k.left(local); !slices.Equal(got, []int{0, 3}) { // of endpoint 1, the only one here
			t.Errorf("clients %v of local endpoints are left", got)
		}
	})
}

func TestChangesWithoutAffinityReadNothing(t *testing.T) {
	each(t, func(t *testing.T, f model.Family, p model.Protocol) {
		k := &kernel{maps: map[nft.SetID][]nft.Element{}}
		run(t, k, nil, func(s *Pruner) {
			for n := range 10 {
				s.Follow(sync.Committed{Set: []model.Frontend{owner(f, p, 0, 0, n)}})
			}
		})
		if k.listed > 0 {
			t.Errorf("maps were listed %d times", k.listed)
		}
	})
}

func TestElementTimeoutIsNoError(t *testing.T) {
	each(t, func(t *testing.T, f model.Family, p model.Protocol) {
		id := nft.SetID{Family: f, Kind: nft.SetAffinity}
		k := &kernel{maps: map[nft.SetID][]nft.Element{id: full(f, p)}, gone: 2}
		run(t, k, nil, func(s *Pruner) {
			s.Follow(sync.Committed{Full: true, Set: []model.Frontend{owner(f, p, time.Hour, 0, 9)}})
		})
		if got := k.left(id); len(got) > 0 {
			t.Errorf("clients %v are left", got)
		}
	})
}

func TestFailedPruneIsRetried(t *testing.T) {
	each(t, func(t *testing.T, f model.Family, p model.Protocol) {
		id := nft.SetID{Family: f, Kind: nft.SetAffinity}
		k := &kernel{maps: map[nft.SetID][]nft.Element{id: full(f, p)}}
		k.broken.Store(true)
		run(t, k, nil, func(s *Pruner) {
			s.Follow(sync.Committed{Full: true, Set: []model.Frontend{owner(f, p, time.Hour, 0, 1)}})
			<-time.After(5 * retryPeriod)
			k.broken.Store(false)
			<-time.After(2 * retryPeriod)
		})
		if got := k.left(id); !slices.Equal(got, []int{0, 3}) {
			t.Errorf("clients %v are left", got)
		}
	})
}

func TestFullMapIsReported(t *testing.T) {
	k := &kernel{maps: map[nft.SetID][]nft.Element{}, full: [...]uint64{model.IPv4: 7, model.IPv6: 9}}
	reported := [len(model.Families)]uint64{}
	run(t, k, func(f model.Family, n uint64) { reported[f] = n }, func(*Pruner) { <-time.After(2 * counterPeriod) })
	if reported != k.full {
		t.Errorf("reported %v, want %v", reported, k.full)
	}
}
