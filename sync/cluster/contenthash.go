package cluster

import (
	"hash/maphash"
	"net/netip"

	"kube-vmap/model"
	"kube-vmap/sync"
)

// seed makes hashes comparable within this process, which is all they are for.
var seed = maphash.MakeSeed()

// content is a hash of what an object means. Two that mean the same have the same
// hash; that two which do not have it, too, is as likely as one in 2^64.
type contentHasher struct{ maphash.Hash }

// contentHash hashes an item's value; never zero.
func contentHash(value any) uint64 {
	var m contentHasher
	m.SetSeed(seed)
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

// hashUID hashes a UID, which takes less memory than the text.
func hashUID(uid string) uint64 { return maphash.String(seed, uid) }

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

// endpoint is written out, because WriteComparable would copy each of a hundred
// thousand endpoints to the heap.
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

// text adds a string so that it cannot run into the next one.
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

// writeList adds a list so that it cannot run into the next one.
func writeList[T comparable](m *contentHasher, values []T) {
	maphash.WriteComparable(&m.Hash, len(values))
	for _, v := range values {
		maphash.WriteComparable(&m.Hash, v)
	}
}
