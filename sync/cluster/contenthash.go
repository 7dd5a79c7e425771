package cluster

import (
	"hash/maphash"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// hashSeed makes hashes comparable within this process only.
var hashSeed = maphash.MakeSeed()

// A contentHasher hashes the converted form of API objects, so that the store can see
// which updates change anything without keeping the objects. A field that package
// convert starts to read becomes a field of the model's types, and must be added here
// as well: TestHashCoversEveryModelField fails otherwise.
type contentHasher struct{ maphash.Hash }

// contentHash returns a hash of a converted object's value, never zero. Different
// values have the same hash with a probability of 2^-64.
func contentHash(value any) uint64 {
	var m contentHasher
	m.SetSeed(hashSeed)
	switch v := value.(type) {
	case sync.SetService:
		m.service(&v.Service)
	case sync.SetSlice:
		m.slice(&v.Slice)
	case sync.SetNode:
		maphash.WriteComparable(&m.Hash, v)
	case []netip.Prefix:
		writeList(&m, v)
	}
	return max(m.Sum64(), 1)
}

// hashUID returns a hash of a UID, which takes less memory than the text.
func hashUID(uid string) uint64 { return maphash.String(hashSeed, uid) }

func (m *contentHasher) service(s *model.Service) {
	m.text(s.Name.Namespace)
	m.text(s.Name.Name)
	m.text(s.UID)
	maphash.WriteComparable(&m.Hash, s.Created)
	writeList(m, s.ClusterIPs)
	writeList(m, s.ExternalIPs)
	writeList(m, s.LoadBalancerIPs)
	writeList(m, s.SourceRanges)
	writeList(m, s.Ports)
	maphash.WriteComparable(&m.Hash, s.InternalPolicy)
	maphash.WriteComparable(&m.Hash, s.ExternalPolicy)
	maphash.WriteComparable(&m.Hash, s.Affinity)
	maphash.WriteComparable(&m.Hash, s.Scheduler)
	maphash.WriteComparable(&m.Hash, s.HealthCheckNodePort)
}

func (m *contentHasher) slice(s *model.EndpointSlice) {
	m.text(s.Name.Namespace)
	m.text(s.Name.Name)
	m.text(s.Service.Namespace)
	m.text(s.Service.Name)
	maphash.WriteComparable(&m.Hash, s.Family)
	writeList(m, s.Ports)
	maphash.WriteComparable(&m.Hash, len(s.Endpoints))
	for i := range s.Endpoints {
		m.endpoint(&s.Endpoints[i])
	}
}

// endpoint writes each field by itself, because WriteComparable would copy each of a
// hundred thousand endpoints to the heap.
func (m *contentHasher) endpoint(e *model.Endpoint) {
	addr := e.Addr.As16()
	_, _ = m.Write(addr[:])
	for _, b := range [...]bool{e.Addr.Is4(), e.Ready, e.Serving, e.Terminating} {
		m.flag(b)
	}
	m.text(e.Node)
	m.text(string(e.ZoneHints))
	m.text(string(e.NodeHints))
}

// text writes a string and its end, so that it differs from a longer one.
func (m *contentHasher) text(s string) {
	_, _ = m.WriteString(s)
	_ = m.WriteByte(0)
}

func (m *contentHasher) flag(b bool) {
	if b {
		_ = m.WriteByte(1)
	} else {
		_ = m.WriteByte(0)
	}
}

// writeList writes a list and its length, so that it differs from a longer one.
func writeList[T comparable](m *contentHasher, values []T) {
	maphash.WriteComparable(&m.Hash, len(values))
	for _, v := range values {
		maphash.WriteComparable(&m.Hash, v)
	}
}
