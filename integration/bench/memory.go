package main

import (
	"fmt"
	"math/bits"
	"os"
	"slices"
	"strings"
	"time"

	"kube-vmap/integration/bench/report"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// memory measures the memory of rules in the kernel.
func (b *bench) memory() error {
	c := newCluster(standard, model.IPv4)
	_, batch := nft.Adopt(config, nft.Tables{}, c.all())
	built, err := prepare(batch)
	if err != nil {
		return err
	}
	memory, buckets, err := b.measureMemory(built)
	if err != nil {
		return err
	}
	endpoints := c.size.services*c.endpoints + c.endpoints + 1
	memory, buckets = memory/endpoints, buckets/endpoints // which exist whether used or not
	bound := (kernelBytes + buckets) * 11 / 10
	b.Mark(memory <= bound, "kernel memory of an endpoint, "+c.label(), report.Bytes(memory),
		fmt.Sprintf("%d B + buckets of %d B", kernelBytes, buckets), "10 % more: "+report.Text(report.Bytes(bound)))
	return nil
}

// kernelBytes is the memory of an endpoint in the kernel without buckets, its share of the
// elements that dispatch included, if Services have ten endpoints.
const kernelBytes = 133

// memoryRounds returns how often the memory of the same content is measured.
func (b *bench) memoryRounds() int {
	if b.quick {
		return 3
	}
	return 7
}

// measureMemory loads prepared bytes and measures by how much the kernel's memory grows,
// several times, because other programs disturb it. It returns how much of that are buckets, too.
func (b *bench) measureMemory(parts [][]byte) (memory, buckets int, err error) {
	var grown []int
	for range b.memoryRounds() {
		err = inSandbox(func(s *sandbox) error {
			before, err := settledMemory()
			if err != nil {
				return err
			}
			if _, err := s.raw.send(parts...); err != nil {
				return err
			}
			after, err := settledMemory()
			if err != nil {
				return err
			}
			grown = append(grown, after-before)
			have, err := s.kernel.Read()
			buckets = bucketsOf(have)
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	slices.Sort(grown)
	return grown[len(grown)/2], buckets, nil
}

// bucketsOf returns how much memory the declared sizes of the sets take: the kernel
// makes the next power of two of 4/3 of the size, a pointer each
// (net/netfilter/nft_set_hash.c, nft_hash_buckets).
func bucketsOf(have nft.Tables) int {
	sum := 0
	for _, t := range have {
		if t == nil {
			continue
		}
		for _, set := range t.Sets {
			if n := uint(set.Shape.Size); n > 0 {
				sum += 8 << bits.Len(n*4/3-1)
			}
		}
	}
	return sum
}

// settledMemory waits until the kernel has freed memory in the background, as far as
// other programs allow, and returns how much it uses.
func settledMemory() (int, error) {
	const (
		pause = 50 * time.Millisecond
		rest  = 64 << 10
	)
	last, err := kernelMemory()
	for range 40 {
		if err != nil {
			return 0, err
		}
		time.Sleep(pause)
		var now int
		now, err = kernelMemory()
		if still := max(now-last, last-now) < rest; still {
			break
		}
		last = now
	}
	return last, err
}

// kernelMemory returns the bytes of the kinds of kernel memory that netfilter uses.
func kernelMemory() (int, error) {
	sum := 0
	for _, name := range []string{"SUnreclaim", "VmallocUsed", "Percpu"} {
		n, err := kilobytes("/proc/meminfo", name)
		if err != nil {
			return 0, err
		}
		sum += n << 10
	}
	return sum, nil
}

// kilobytes reads the line of that name from one of the files of /proc that list sizes.
func kilobytes(path, name string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var n int
			_, err := fmt.Sscan(rest, &n)
			return n, err
		}
	}
	return 0, fmt.Errorf("%s has no line %s", path, name)
}
