package affinity

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/sync"
	"kube-vmap/sync/follow"
)

const (
	// capacity is how many clients of a map all namespaces may keep after an eviction.
	capacity = nft.MaxClients * 3 / 4
	// batchSize is how many clients one transaction deletes.
	batchSize = 1000
	// minExpires is the minimum time left of a client to evict: others may expire before
	// the transaction, which the kernel would refuse.
	minExpires = 5 * time.Second
	// pauseFactor times the processor time of an eviction is the pause after it.
	pauseFactor = 70
)

// ReasonForgotten is the reason of the event that clients of a Service were forgotten.
const ReasonForgotten = "ClientsForgotten"

// applyCommits brings the Services up to date.
func (r *Reader) applyCommits() {
	for _, c := range r.Take() {
		follow.Update(r.services, c, func(f *model.Frontend, _ sync.Object, _ bool) (sync.Object, bool) {
			s := f.Service
			return sync.Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: f.Pool.UID},
				f.IsClusterIP() && f.Pool.Affinity != 0
		}, func(model.Match, sync.Object) {})
	}
	r.services = model.Shrink(r.services, &r.peak)
}

func (r *Reader) evict(families []model.Family) {
	r.applyCommits()
	for _, f := range families {
		for _, local := range []bool{false, true} {
			if err := r.cutAll(nft.SetID{Family: f, Kind: nft.SetAffinity, Local: local}); err != nil {
				r.Log.Warn("no room made in the affinity map, retrying", "err", err)
			}
		}
	}
}

// A namespace has clients in a map.
type namespace struct {
	name    string
	clients int
	list    []nft.Client // those that do not expire soon
}

// cutAll evicts clients of the namespaces that have more than their fair share of a map.
// Destinations without a Service count as one namespace.
func (r *Reader) cutAll(id nft.SetID) error {
	namespaces := map[string]*namespace{}
	err := r.Kernel.Clients(id, func(c nft.Client) {
		name := r.services[c.Destination].Namespace
		n := namespaces[name]
		if n == nil {
			n = &namespace{name: name}
			namespaces[name] = n
		}
		n.clients++
		if c.Expires >= minExpires {
			n.list = append(n.list, c)
		}
	})
	if err != nil {
		return err // of a part, no share is known
	}
	var counts []int
	for _, n := range namespaces {
		counts = append(counts, n.clients)
	}
	share := model.FairShare(capacity, counts)
	for _, n := range namespaces {
		if n.clients > share {
			err = errors.Join(err, r.cut(id, n, share))
		}
	}
	return err
}

// cut evicts clients of a namespace until the others are within its share. If a transaction
// is refused because a client no longer exists, its clients stay.
func (r *Reader) cut(id nft.SetID, n *namespace, share int) (err error) {
	services, forgotten := sets.New[sync.Object](), 0
	for part := range slices.Chunk(n.list[:min(len(n.list), n.clients-share)], batchSize) {
		if _, err = r.Kernel.Apply(nft.Batch{nft.Forget(id, part)}); errors.Is(err, fs.ErrNotExist) {
			err = nil
			continue
		} else if err != nil {
			err = fmt.Errorf("delete clients: %w", err)
			break
		}
		forgotten += len(part)
		for _, c := range part {
			services.Insert(r.services[c.Destination])
		}
	}
	if forgotten == 0 {
		return err
	}
	r.Log.Warn("clients forgotten: their namespace has more than its share of the affinity map",
		"family", id.Family.String(), "map", id.Name(), "namespace", n.name,
		"forgotten", forgotten, "clients", n.clients, "share", share)
	services.Delete(sync.Object{}) // destinations without a Service
	sync.WarnServices(r.Recorder, services, ReasonForgotten, fmt.Sprintf(
		"%s clients were forgotten, and may get another endpoint: "+
			"its namespace has more than its share of the clients that a node remembers",
		id.Family))
	return err
}
