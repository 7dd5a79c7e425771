package cluster

import (
	"hash/maphash"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// hashSeed makes hashes comparable within this process only.
var hashSeed = maphash.MakeSeed()

// A contentHasher hashes the converted form of API objects. The store can then see which
// updates change anything without keeping the objects. A field that package convert
// starts to read becomes a field of the model's types, and must be added here as well:
// TestHashCoversEveryModelField fails otherwise.
type contentHasher struct{ maphash.Hash }

// contentHash returns a hash of a converted object's value, never zero. Different
// values have the same hash with a probability of 2^-64.
func contentHash(value any) uint64 {
	var h contentHasher
	h.SetSeed(hashSeed)
	switch v := value.(type) {
	case sync.SetService:
		h.service(&v.Service)
	case sync.SetSlice:
		h.slice(&v.Slice)
	case nodeObject:
		maphash.WriteComparable(&h.Hash, v)
	case []netip.Prefix:
		writeList(&h, v)
	}
	return max(h.Sum64(), 1)
}

func (h *contentHasher) service(s *model.Service) {
	h.all(s.Name, s.UID, s.Created, s.InternalPolicy, s.ExternalPolicy, s.Affinity, s.Scheduler, s.PassiveChecks,
		s.HealthCheckNodePort, s.HintsField, s.Selects)
	writeList(h, s.ClusterIPs)
	writeList(h, s.ExternalIPs)
	writeList(h, s.LoadBalancerIPs)
	writeList(h, s.SourceRanges)
	writeList(h, s.Ports)
}

func (h *contentHasher) slice(s *model.EndpointSlice) {
	h.all(s.Name, s.Service, s.Family, s.Weight, s.Drained, s.Managed, len(s.Endpoints))
	writeList(h, s.Ports)
	for i := range s.Endpoints {
		h.endpoint(&s.Endpoints[i])
	}
}

func (h *contentHasher) all(values ...any) {
	for _, v := range values {
		maphash.WriteComparable(&h.Hash, v)
	}
}

// endpoint writes each field by itself, because WriteComparable would copy each of a
// hundred thousand endpoints to the heap.
func (h *contentHasher) endpoint(e *model.Endpoint) {
	addr := e.Addr.As16()
	_, _ = h.Write(addr[:])
	for _, b := range [...]bool{e.Addr.Is4(), e.Ready, e.Serving, e.Terminating} {
		h.flag(b)
	}
	h.text(e.Node)
	h.text(string(e.ZoneHints))
	h.text(string(e.NodeHints))
}

// text writes a string and its end, to distinguish it from a longer one.
func (h *contentHasher) text(s string) {
	_, _ = h.WriteString(s)
	_ = h.WriteByte(0)
}

func (h *contentHasher) flag(b bool) {
	if b {
		_ = h.WriteByte(1)
	} else {
		_ = h.WriteByte(0)
	}
}

// writeList writes a list and its length, to distinguish it from a longer one.
func writeList[T comparable](h *contentHasher, values []T) {
	maphash.WriteComparable(&h.Hash, len(values))
	for _, v := range values {
		maphash.WriteComparable(&h.Hash, v)
	}
}
