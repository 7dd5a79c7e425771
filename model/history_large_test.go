package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestLargeHistories runs histories of Services with many slices, which share
// addresses, differ in ports, and move from one Service to the other. Most events are
// small, and some replace everything.
func TestLargeHistories(t *testing.T) {
	for seed := range fewerIfShort(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := largeHistory{newHistory(t, nil, minCachedSlices), rand.New(rand.NewPCG(seed, 1))}
			for i := range 2 {
				c.setService(c.service(i))
			}
			for range 80 {
				c.event()
			}
			c.end()
		})
	}
}

// largeHistory is a history of two Services with many slices, whose events are random.
type largeHistory struct {
	*history
	random *rand.Rand
}

const (
	largeSlices    = 16
	largeAddresses = 150
)

// one returns one of the values.
func one[T any](c *largeHistory, of ...T) T { return of[c.random.IntN(len(of))] }

// often returns false once in n times.
func (c *largeHistory) often(n int) bool { return c.random.IntN(n) > 0 }

func (c *largeHistory) event() {
	switch k := c.random.IntN(40); {
	case k < 20:
		c.setSlice(c.changed(c.anySlice()))
	case k < 24:
		c.setSlice(c.slice())
	case k < 26:
		c.deleteSlice(c.sliceName())
	case k < 36:
		c.check()
	case k < 37:
		c.flood()
	default:
		c.changeAll()
	}
}

// flood replaces all slices, or deletes most.
func (c *largeHistory) flood() {
	stay := one(c, true, false)
	for i := range largeSlices {
		s := c.slice()
		s.Name.Name = fmt.Sprint(i)
		if stay || i < minCachedSlices {
			c.setSlice(s)
		} else {
			c.deleteSlice(s.Name)
		}
	}
}

// changeAll makes a change that affects all endpoints of a Service.
func (c *largeHistory) changeAll() {
	switch k := c.random.IntN(2); c.random.IntN(4) {
	case 0:
		c.deleteService(c.service(k).Name)
	case 1:
		c.setService(c.service(k))
	case 2:
		c.setOptions(Options{TCPFlowEndpoints: one(c, true, false), MasqueradeAll: one(c, true, false)})
	case 3:
		c.setNode(Node{Name: one(c, here, there, ""), Zone: one(c, zoneA, zoneB, "")})
	}
}

// service returns Service 0 or 1, mostly with ports of all protocols and families.
func (c *largeHistory) service(number int) Service {
	s := Service{
		Name: ServiceName{"shop", fmt.Sprint(number)}, HealthCheckNodePort: one[uint16](c, 0, 31000),
		InternalPolicy: TrafficPolicy(c.random.IntN(2)), ExternalPolicy: TrafficPolicy(c.random.IntN(2)),
		Affinity: time.Duration(c.random.IntN(2)) * time.Hour,
	}
	for _, f := range Families {
		if c.often(5) {
			s.ClusterIPs = append(s.ClusterIPs, clusterIP(f, number))
		}
		if c.often(2) {
			s.ExternalIPs = append(s.ExternalIPs, externalIP(f, number))
		}
	}
	for _, p := range []ServicePort{{"http", TCP, 80, 0}, {"http", TCP, 81, 0}, {"dns", UDP, 53, 0}, {"", SCTP, 80, 0}} {
		if c.often(5) {
			s.Ports = append(s.Ports, p)
		}
	}
	return s
}

func (c *largeHistory) sliceName() EndpointSliceName {
	return EndpointSliceName{"shop", fmt.Sprint(c.random.IntN(largeSlices))}
}

// slice returns a slice that is unrelated to the existing one of its name.
func (c *largeHistory) slice() EndpointSlice {
	s := EndpointSlice{
		Name: c.sliceName(), Service: ServiceName{"shop", one(c, "0", "0", "0", "1")},
		Family: one(c, IPv4, IPv4, IPv6), Ports: c.ports(),
	}
	for range c.random.IntN(30) {
		s.Endpoints = append(s.Endpoints, c.endpoint(s.Family))
	}
	return s
}

// ports returns mostly the same ports, and sometimes one with two numbers.
func (c *largeHistory) ports() []EndpointPort {
	out := []EndpointPort{{"http", TCP, 8080}, {"dns", UDP, 53}, {"", SCTP, 8080}}
	if !c.often(4) {
		out[c.random.IntN(3)].Port = 9090
	}
	if !c.often(6) {
		out = append(out, EndpointPort{"http", TCP, one[uint16](c, 8080, 9090, 80)})
	}
	return out
}

func (c *largeHistory) endpoint(f Family) Endpoint {
	e := Endpoint{
		Addr: podIP(f, c.random.IntN(largeAddresses)), Ready: c.often(4), Node: one(c, here, there, ""),
	}
	e.Terminating = !e.Ready && one(c, true, false)
	e.Serving = e.Ready || one(c, true, false)
	if c.often(8) {
		e.ZoneHints = one[NameSet](c, zoneA, zoneB, NameSetOf(zoneA, zoneB))
	}
	if !c.often(8) {
		e.NodeHints = one[NameSet](c, here, there)
	}
	return e
}

// anySlice returns an existing slice or a new one.
func (c *largeHistory) anySlice() EndpointSlice {
	if s, ok := c.now.slices[c.sliceName()]; ok {
		return s
	}
	return c.slice()
}

// changed returns the slice with a small change.
func (c *largeHistory) changed(s EndpointSlice) EndpointSlice {
	s.Endpoints = slices.Clone(s.Endpoints)
	if len(s.Endpoints) == 0 || !c.often(12) {
		s.Ports, s.Service.Name = c.ports(), one(c, "0", "1")
		return s
	}
	switch k := c.random.IntN(len(s.Endpoints)); c.random.IntN(6) {
	case 0:
		s.Endpoints = append(s.Endpoints, c.endpoint(s.Family))
	case 1:
		s.Endpoints = slices.Delete(s.Endpoints, k, k+1)
	case 2:
		s.Endpoints[k] = c.endpoint(s.Family)
	case 3:
		s.Endpoints[k].Ready, s.Endpoints[k].Serving = !s.Endpoints[k].Ready, true
	case 4:
		s.Endpoints[k].Node, s.Endpoints[k].Addr = here, podIP(s.Family, c.random.IntN(largeAddresses))
	case 5:
		c.random.Shuffle(len(s.Endpoints), func(i, k int) {
			s.Endpoints[i], s.Endpoints[k] = s.Endpoints[k], s.Endpoints[i]
		})
	}
	return s
}
