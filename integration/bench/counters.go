package main

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// counters measures the cost of counting connections.
func (b *bench) counters() error {
	return errors.Join(b.countedLoads(), b.countedConnections(), b.counterCosts())
}

// counting returns the configuration that counts connections, or does not.
func counting(on bool) nft.Config {
	c := config
	c.CountConnections = on
	return c
}

// maxCountingRatio is how many times as long a connection may take if it is counted.
const maxCountingRatio = 1.05

// countedLoads measures a first load with counters and without, and the switch from one
// to the other.
func (b *bench) countedLoads() error {
	s := b.Section("Counting connections: load, ip and ip6", "", "first load on", "off", "on/off",
		"switched on", "bytes", "switched off", "bytes", "memory on", "off")
	s.Note("first load: from Adopt to commit; memory: growth of the whole machine's slab, vmalloc and per-CPU memory")
	for _, z := range []size{{1, 1}, {100, 10}, standard} {
		want := newCluster(z, model.IPv4).all()
		var took, switched [2]report.Times
		var memory [2][]int
		var bytes [2]int
		for range b.rounds(z) {
			for i, on := range [...]bool{false, true} {
				runtime.GC()
				err := inSandbox(func(s *sandbox) error {
					before, err := settledMemory()
					if err != nil {
						return err
					}
					start := time.Now()
					_, batch := nft.Adopt(counting(on), nft.Tables{}, want)
					if _, err := s.kernel.Apply(batch); err != nil {
						return err
					}
					took[i] = append(took[i], time.Since(start))
					after, err := settledMemory()
					memory[i] = append(memory[i], after-before)
					if err != nil {
						return err
					}
					have, err := s.kernel.Read()
					if err != nil {
						return err
					}
					_, batch = nft.Adopt(counting(!on), have, want)
					applied, err := s.kernel.Apply(batch)
					switched[1-i], bytes[1-i] = append(switched[1-i], applied.Took), applied.Bytes
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		s.Add(z.String(), took[1].Median(), took[0].Median(), report.Ratio(took[1].Median(), took[0].Median()),
			switched[1].Median(), report.Bytes(bytes[1]), switched[0].Median(), report.Bytes(bytes[0]),
			report.Bytes(median(memory[1])), report.Bytes(median(memory[0])))
	}
	return nil
}

// countedConnections measures connections through a ClusterIP with counters and without,
// and directly to the pod, in turns.
func (b *bench) countedConnections() (err error) {
	s := b.Section("Counting connections: tcp over ip, pod to pod, through a ClusterIP", "", "p50", "p99", "per s", "p50/off")
	s.Note("in turns; each: connect, request, response, close")
	node, err := newLabNode(model.IPv4, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.close()) }()
	off, on := &way{name: "not counted", config: counting(false)}, &way{name: "counted", config: counting(true)}
	if err := b.alternate(s, node, node.client.Host, off, on); err != nil {
		return err
	}
	b.MarkRatio("a connection that is counted, p50", on.latency.Median(), off.name, off.latency.Median(), maxCountingRatio)
	return nil
}

// counterCosts measures the memory of counters, and how long it takes to read them.
func (b *bench) counterCosts() error {
	s := b.Section("Counting connections: counters", "", "memory", "each", "written", "read", "deleted")
	s.Note("on %s processors; a counter has 16 bytes for each that there may be", runtime.NumCPU())
	for _, f := range model.Families {
		for _, n := range []int{1_000, 50_000, nft.MaxConnectionCounts} {
			if err := b.measureCounters(s, f, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureCounters writes counters, reads and deletes them.
func (b *bench) measureCounters(s *report.Section, f model.Family, n int) error {
	list := make([]nft.ConnectionCount, n)
	asked, endpoint := serviceCIDRs[f].Addr(), podBase[f]
	for i := range list {
		endpoint = endpoint.Next()
		if i%10 == 0 {
			asked = asked.Next()
		}
		list[i] = nft.ConnectionCount{
			Destination: model.Match{Family: f, Addr: asked, Protocol: model.TCP, Port: servicePort},
			Endpoint:    netip.AddrPortFrom(endpoint, podPort),
			Connections: uint64(i),
		}
	}
	var grown []int
	var written, read, deleted report.Times
	for range b.memoryRounds() {
		err := inSandbox(func(s *sandbox) error {
			_, batch := nft.Adopt(counting(true), nft.Tables{}, nft.Change{})
			if _, err := s.kernel.Apply(batch); err != nil {
				return err
			}
			before, err := settledMemory()
			if err != nil {
				return err
			}
			start := time.Now()
			if _, err := s.kernel.Apply(nft.Batch{nft.AddConnections{Family: f, List: list}}); err != nil {
				return err
			}
			written = append(written, time.Since(start))
			after, err := settledMemory()
			grown = append(grown, after-before)
			if err != nil {
				return err
			}
			start = time.Now()
			if _, err := s.kernel.Connections(f); err != nil {
				return err
			}
			read = append(read, time.Since(start))
			start = time.Now()
			_, err = s.kernel.Apply(nft.Batch{nft.DeleteConnections{Family: f, List: list}})
			deleted = append(deleted, time.Since(start))
			return err
		})
		if err != nil {
			return err
		}
	}
	s.Add(nft.FamilyName(f)+", "+report.Text(n), report.Bytes(median(grown)), report.Bytes(median(grown)/n),
		written.Median(), read.Median(), deleted.Median())
	return nil
}

// median returns the middle one of some numbers.
func median(of []int) int { return slices.Sorted(slices.Values(of))[len(of)/2] }
