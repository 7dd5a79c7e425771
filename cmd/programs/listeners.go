package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening is TCP_LISTEN (include/net/tcp_states.h), as the tables print it.
const listening = "0A"

// ForeignPorts returns the TCP ports on which another process of the calling thread's network
// namespace listens, at any address, in the given order. It needs no permission to see those
// processes: a container without the host's process IDs sees nothing else of them.
func ForeignPorts(ports ...uint16) ([]uint16, error) {
	// A socket of ours may be opened or closed while the tables are read.
	own := map[string]bool{}
	if err := addOwnSockets(own); err != nil {
		return nil, fmt.Errorf("list own sockets: %w", err)
	}
	inodes := map[uint16][]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		if err := readListeners(filepath.Join("/proc/thread-self/net", table), inodes); err != nil {
			return nil, fmt.Errorf("list listening sockets: %w", err)
		}
	}
	if err := addOwnSockets(own); err != nil {
		return nil, fmt.Errorf("list own sockets: %w", err)
	}
	var out []uint16
	for _, port := range ports {
		if slices.ContainsFunc(inodes[port], func(inode string) bool { return !own[inode] }) {
			out = append(out, port)
		}
	}
	return out, nil
}

// readListeners adds the inodes of a table's listening sockets by port: "0: 00000000:2810
// 00000000:0000 0A 00000000:00000000 ...". These come first (tcp_get_idx in net/ipv4/tcp_ipv4.c),
// so the rest, which may be long, is not read. A kernel without the family has no table.
func readListeners(path string, inodes map[uint16][]string) error {
	table, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = table.Close() }() // nothing was written to it
	lines := bufio.NewScanner(table)
	lines.Scan() // names of the columns
	for lines.Scan() {
		const local, state, inode = 1, 3, 9
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode {
			return fmt.Errorf("not a socket: %q", lines.Text())
		}
		if fields[state] != listening {
			break
		}
		_, text, _ := strings.Cut(fields[local], ":")
		port, err := strconv.ParseUint(text, 16, 16)
		if err != nil {
			return fmt.Errorf("port of %q: %w", lines.Text(), err)
		}
		inodes[uint16(port)] = append(inodes[uint16(port)], fields[inode])
	}
	return lines.Err()
}

func addOwnSockets(own map[string]bool) error {
	const folder = "/proc/self/fd"
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		// A socket that was closed meanwhile has no target.
		target, err := os.Readlink(filepath.Join(folder, f.Name()))
		if rest, isSocket := strings.CutPrefix(target, "socket:["); err == nil && isSocket {
			own[strings.TrimSuffix(rest, "]")] = true
		}
	}
	return nil
}
