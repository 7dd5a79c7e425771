package main

import (
	"errors"
	"fmt"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// maxLabelRatio is how many times as long a connection may take if it is labelled.
const maxLabelRatio = 1.05

// labels measures what it costs to label connections that request masquerade.
func (b *bench) labels() error { return errors.Join(b.labelledConnections(), b.labelMemory()) }

// labelling returns the configuration that labels connections, or does not.
func labelling(on bool) nft.Config {
	c := config
	c.NoLabels = !on
	return c
}

// labelledConnections measures connections that are masqueraded, with labels and without.
func (b *bench) labelledConnections() (err error) {
	s := b.Section("Labels of connections: tcp over ip, node to pod, through a ClusterIP, masqueraded", "", "p50", "p99", "per s", "p50/mark")
	s.Note("in turns; each: connect, request, response, close")
	node, err := newLabNode(model.IPv4, 3)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.close()) }()
	off, on := &way{name: "mark", config: labelling(false)}, &way{name: "mark and label", config: labelling(true)}
	if err := b.alternate(s, node, node.lab.Node.Host, off, on); err != nil {
		return err
	}
	b.MarkRatio("a connection that is labelled, p50", on.latency.Median(), off.name, off.latency.Median(), maxLabelRatio)
	return nil
}

// labelMemory measures what tracked connections take: as long as any rule has labels, each has
// room for one.
func (b *bench) labelMemory() error {
	s := b.Section(fmt.Sprintf("Labels of connections: %d tracked connections", trackedEntries), "", "memory", "each")
	for _, on := range [...]bool{false, true} {
		var grown []int
		for range b.memoryRounds() {
			n, err := trackedMemory(labelling(on))
			if err != nil {
				return err
			}
			grown = append(grown, n)
		}
		memory := median(grown)
		s.Add(map[bool]string{false: "mark", true: "mark and label"}[on], report.Bytes(memory), report.Bytes(memory/trackedEntries))
	}
	return nil
}

// trackedMemory returns what tracked connections take with these rules. It waits until the kernel
// has released them, which it does in the background.
func trackedMemory(c nft.Config) (grown int, err error) {
	before, full := 0, 0
	err = inSandbox(func(box *sandbox) error {
		_, batch := nft.Adopt(c, nft.Tables{}, newCluster(size{10, 10}, model.IPv4).all())
		if _, err := box.kernel.Apply(batch); err != nil {
			return err
		}
		if before, err = settledMemory(); err != nil {
			return err
		}
		if err := track(box.raw, trackedEntries, 1); err != nil {
			return err
		}
		full, err = settledMemory()
		return err
	})
	for deadline := time.Now().Add(time.Minute); err == nil; {
		var now int
		switch now, err = settledMemory(); {
		case now < (before+full)/2:
			return full - before, err
		case time.Now().After(deadline):
			return 0, errors.New("the kernel does not release tracked connections")
		}
	}
	return 0, err
}
