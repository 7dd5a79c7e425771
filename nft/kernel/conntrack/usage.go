package conntrack

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/nft/attr"
)

// IsFull reports whether the kernel's table has so few entries left that new connections may be
// dropped: less than a twentieth.
func (c *Conntrack) IsFull() (bool, error) {
	entries, most, err := c.Usage()
	return most > 0 && uint64(entries)*20 >= uint64(most)*19, err
}

// Usage returns how many entries the kernel's table has, and can have; zeros if the kernel does
// not say.
func (c *Conntrack) Usage() (entries, most uint32, err error) {
	err = c.exchange(request(msgUsage, 0, unix.AF_UNSPEC, nil), msgUsage, func(data []byte) {
		entries, most = decodeUsage(data)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("read the size of connection tracking: %w", explainError(err))
	}
	return entries, most, nil
}

// TCPTimeout returns after how long without a packet the kernel forgets an established connection of
// TCP, in the process's network namespace; zero if it does not say.
func TCPTimeout() time.Duration {
	text, _ := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established")
	seconds, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return time.Duration(seconds) * time.Second
}

func decodeUsage(data []byte) (entries, most uint32) {
	var d attr.Decoder
	for kind, value := range d.Attributes(d.Body(data)) {
		switch kind {
		case ctaStatsEntries:
			entries = d.Uint32(value)
		case ctaStatsMaxEntries:
			most = d.Uint32(value)
		}
	}
	return entries, most
}
