package simulator

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"

	"kube-vmap/nft/kernel/socket"
)

// State is what rules match on the node besides nf_tables, ipset and connection tracking: the
// socket of a packet, the lists of the match recent, and the queues at which programs listen. It
// is read when a packet meets such a rule. It implements [simulate.NodeState].
type State struct {
	netNS     int
	conn      *netlink.Conn // nil until a socket is asked for
	diagnosed map[byte]bool // protocols for which the kernel looks up sockets
}

// NewState returns the state of a network namespace, given by its file descriptor; zero means that
// of the calling thread.
func NewState(netNS int) *State { return &State{netNS: netNS} }

// Close closes the netlink socket.
func (s *State) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

// eachLine calls fn with the fields of each line of a file below /proc/net until it returns
// false. A file that does not exist has no lines.
func (s *State) eachLine(name string, fn func(fields []string) bool) error {
	err := socket.In(s.netNS, func() error {
		f, err := os.Open(filepath.Join("/proc/thread-self/net", name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read from
		return eachLine(f, fn)
	})
	if err != nil {
		return fmt.Errorf("read /proc/net/%s: %w", name, err)
	}
	return nil
}

func eachLine(r io.Reader, fn func(fields []string) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 0 && !fn(fields) {
			return nil
		}
	}
	return lines.Err()
}

// Queues implements [simulate.NodeState].
func (s *State) Queues() (list []uint16, err error) {
	err = s.eachLine("netfilter/nfnetlink_queue", func(fields []string) bool {
		if n, err := strconv.ParseUint(fields[0], 10, 16); err == nil {
			list = append(list, uint16(n))
		}
		return true
	})
	return list, err
}

func addrOf(text string) netip.Addr {
	a, _ := netip.ParseAddr(text)
	return a
}
