package affinity

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
)

type counters [len(model.Families)]uint64

func (c counters) Counters(f model.Family) (out [nft.Counters]uint64, err error) {
	out[nft.CounterAffinityFull] = c[f]
	return out, nil
}

// fakeKernel has the maps of clients. Each listing of a map takes a second of the processor.
type fakeKernel struct {
	counters
	clients  map[nft.SetID][]nft.Client
	listings int
	cpu      time.Duration
	missing  int // the number of the transaction, from 1, with a client that no longer exists; 0 means none
	refused  error
	applied  int
}

func (k *fakeKernel) Clients(id nft.SetID, each func(nft.Client)) error {
	k.listings++
	k.cpu += time.Second
	for _, c := range k.clients[id] {
		if c.Addr.IsValid() {
			each(c)
		}
	}
	return nil
}

func (k *fakeKernel) Apply(b nft.Batch) (nft.Applied, error) {
	if k.applied++; k.applied == k.missing {
		return nft.Applied{}, fs.ErrNotExist
	}
	if k.refused != nil {
		return nft.Applied{}, k.refused
	}
	// The reader deletes clients in the order of the listing.
	op := b[0].(nft.DeleteElements)
	list, next := k.clients[op.Set], 0
	for i := 0; i < len(list) && next < len(op.Elements); i++ {
		key := &op.Elements[next].Key
		if c := &list[i]; c.Destination.Addr == key.Addr && c.Addr == key.SourcePrefix().Addr() {
			list[i].Addr = netip.Addr{}
			next++
		}
	}
	if next < len(op.Elements) {
		return nft.Applied{}, errors.New("clients that are not in the map")
	}
	return nft.Applied{}, nil
}

// count counts the clients of a map by the Service's number.
func (k *fakeKernel) count(id nft.SetID) (n [4]int) {
	for _, c := range k.clients[id] {
		if !c.Addr.IsValid() {
			continue // deleted
		}
		n[c.Destination.Addr.AsSlice()[len(c.Destination.Addr.AsSlice())-1]]++
	}
	return n
}

// A rig has Services 1 to 3, each with a namespace of its own; number 0 stands for no
// Service.
type rig struct {
	*testing.T
	*fakeKernel
	reader   *Reader
	reported counters
	log      strings.Builder
	events   []sync.Object
}

func (r *rig) Warn(o sync.Object, _, _ string) { r.events = append(r.events, o) }

// run runs a test in both families, with one of their two maps each. The first totals are from
// before the start, and do not count as a rise.
func run(t *testing.T, test func(*rig, nft.SetID)) {
	for _, f := range model.Families {
		id := nft.SetID{Family: f, Kind: nft.SetAffinity, Local: f == model.IPv6}
		t.Run(id.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{T: t, fakeKernel: &fakeKernel{counters: counters{7, 9}, clients: map[nft.SetID][]nft.Client{}}}
				r.reader = New(Config{
					Kernel: r.fakeKernel, Log: slog.New(slog.NewTextHandler(&r.log, nil)), Recorder: r,
					Full: func(f model.Family, n uint64) { r.reported[f] = n },
				})
				r.reader.pace.ProcessorTime = func() time.Duration { return r.cpu }
				r.follow(f)
				<-time.After(time.Minute) // until Run is called
				if r.polls(1); r.listings != 0 || r.log.Len() > 0 || r.reported != r.fakeKernel.counters {
					t.Errorf("%d listings at the start, reported %v:\n%s", r.listings, r.reported, &r.log)
				}
				test(r, id)
			})
		})
	}
}

func destination(f model.Family, n int) model.Match {
	to := netip.AddrFrom4([4]byte{10, 96, 0, byte(n)})
	if f == model.IPv6 {
		to = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(n)})
	}
	return model.Match{Family: f, Addr: to, Port: 80, Protocol: model.TCP}
}

func (r *rig) follow(f model.Family) {
	t := sync.Committed{Full: true}
	for n := 1; n < 4; n++ {
		m := destination(f, n)
		name := model.ServiceName{Namespace: "ns-" + strconv.Itoa(n), Name: "web"}
		t.Set = append(t.Set, model.Frontend{
			Match: m, Kind: model.KindClusterIP, Service: model.ServicePortName{ServiceName: name, Protocol: model.TCP},
			Pool: &model.Pool{Key: m, UID: "uid", Affinity: time.Hour},
		})
	}
	r.reader.Follow(t)
}

// remember adds clients of a Service to a map.
func (r *rig) remember(id nft.SetID, service, count int, expires time.Duration) {
	to := destination(id.Family, service)
	for n := range count {
		from := netip.AddrFrom4([4]byte{1, byte(n >> 16), byte(n >> 8), byte(n)})
		if id.Family == model.IPv6 {
			from = netip.AddrFrom16([16]byte{0: 0xfd, 1: 1, 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)})
		}
		r.clients[id] = append(r.clients[id], nft.Client{Addr: from, Destination: to, Expires: expires})
	}
}

func (r *rig) polls(n int) {
	for range n {
		<-time.After(period)
		r.reader.read()
	}
}

func (r *rig) expect(id nft.SetID, want [4]int) {
	r.Helper()
	if got := r.count(id); got != want {
		r.Errorf("clients %v, want %v", got, want)
	}
}

func TestFullMapIsReported(t *testing.T) {
	run(t, func(r *rig, _ nft.SetID) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*period)
		defer cancel()
		r.fakeKernel.counters = counters{8, 10}
		if err := r.reader.Run(ctx); err != nil || r.reported != r.fakeKernel.counters {
			r.Errorf("reported %v, want %v: %v", r.reported, r.fakeKernel.counters, err)
		}
	})
}

func TestNamespaceBeyondItsShareLosesClients(t *testing.T) {
	run(t, func(r *rig, id nft.SetID) {
		const small = 1000
		r.remember(id, 1, small, time.Hour)
		r.remember(id, 2, nft.MaxClients-small, time.Hour)
		if r.polls(20); r.listings != 0 {
			r.Errorf("%d listings without a rise", r.listings)
		}
		r.fakeKernel.counters[id.Family]++
		r.polls(1)
		r.expect(id, [4]int{1: small, 2: capacity - small})
		want := sync.Object{Kind: "Service", Namespace: "ns-2", Name: "web", UID: "uid"}
		if !slices.Equal(r.events, []sync.Object{want}) {
			r.Errorf("events of %v, want %v", r.events, want)
		}
		if n := strings.Count(r.log.String(), "clients forgotten"); n != 1 {
			r.Errorf("%d log lines:\n%s", n, &r.log)
		}
	})
}

func TestOnlyNamespaceIsEvicted(t *testing.T) {
	run(t, func(r *rig, id nft.SetID) {
		for service := range 2 { // also clients of destinations without a Service
			r.clients[id] = nil
			r.remember(id, service, nft.MaxClients, time.Hour)
			r.fakeKernel.counters[id.Family]++
			r.polls(20)
			want := [4]int{}
			want[service] = capacity
			r.expect(id, want)
		}
		if len(r.events) != 1 {
			r.Errorf("events of %v, want one of the Service", r.events)
		}
		if n := strings.Count(r.log.String(), " connections=1 "); n != 2 {
			r.Errorf("%d log lines of one more connection:\n%s", n, &r.log)
		}
	})
}

func TestClientsThatExpireStay(t *testing.T) {
	run(t, func(r *rig, id nft.SetID) {
		r.remember(id, 1, nft.MaxClients-10, minExpires-1)
		r.remember(id, 1, 10, minExpires)
		r.fakeKernel.counters[id.Family]++
		r.polls(1)
		r.expect(id, [4]int{1: nft.MaxClients - 10})
	})
}

func TestRefusedTransactions(t *testing.T) {
	run(t, func(r *rig, id nft.SetID) {
		r.missing = 2
		r.remember(id, 1, nft.MaxClients, time.Hour)
		r.fakeKernel.counters[id.Family]++
		r.polls(1)
		r.expect(id, [4]int{1: capacity + batchSize})
		if strings.Contains(r.log.String(), "retrying") {
			r.Errorf("a client that is removed is an error:\n%s", &r.log)
		}
		r.refused = errors.New("refused")
		r.polls(20)
		r.fakeKernel.counters[id.Family]++
		r.polls(1)
		if !strings.Contains(r.log.String(), "retrying") {
			r.Errorf("no error in the log:\n%s", &r.log)
		}
	})
}

func TestPauseAfterAListing(t *testing.T) {
	run(t, func(r *rig, id nft.SetID) {
		const maps = 2
		for range 2 * pauseFactor * int(time.Second) / int(period) {
			r.fakeKernel.counters[id.Family]++
			r.polls(1)
		}
		if r.listings != maps {
			r.Errorf("%d listings within the pause, want one of each map", r.listings)
		}
		r.polls(2)
		if r.listings != 2*maps {
			r.Errorf("%d listings after a pause with rises, want two of each map", r.listings)
		}
	})
}
