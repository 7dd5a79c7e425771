package programs

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/sync/source/manifests"
)

// Config is where [Read] looks. The zero value is for a process on the node itself.
type Config struct {
	// Proc is where the proc file system with the node's processes is mounted; empty means
	// /proc.
	Proc string
	// CNIConfig is the directory with the CNI configuration; empty means /etc/cni/net.d.
	CNIConfig string
}

// A Node is what was seen of a node. Network objects are in the network namespace of
// the calling thread.
type Node struct {
	// Tables are in nf_tables and iptables-legacy.
	Tables    []dump.Table
	Processes []Process
	// Nested reports whether the node is a container itself, so processes of the machine
	// around it are not visible.
	Nested bool
	// Ports are the TCP ports on which another process listens, of those that signs name.
	Ports []uint16
	// left are the names of interfaces, the types in the CNI configuration, and the files that
	// exist of those that signs name, by the kinds of signs.
	left map[string][]trace
	// Unseen is what could not be read, or only in part.
	Unseen []Unseen
}

// What cannot be seen without a privilege.
const (
	NFTables     = "nftables"
	LegacyTables = "iptables-legacy"
	Processes    = "processes"
)

// Unseen is something of a node that could not be read, and why.
type Unseen struct {
	What string // NFTables, LegacyTables, Processes, or another word
	Err  error
}

// A Process is a process of the node.
type Process struct {
	PID int
	// Name is the command's name, of which the kernel keeps 15 bytes.
	Name string
	// Here is true if it is in our network namespace; Elsewhere is true if it is in another
	// one, of a pod or of another node on the same machine. The namespace of a process with
	// more capabilities than ours is not visible: then both are false.
	Here, Elsewhere bool
}

// Read reads a node. It always returns what it saw.
func Read(c Config) *Node {
	n := &Node{left: map[string][]trace{}}
	tables, err := dump.Tables(0)
	n.see(NFTables, err)
	legacy, err := dump.Legacy(0)
	n.see(LegacyTables, err)
	n.Tables = append(tables, legacy...)
	interfaces, err := net.Interfaces()
	n.see("interfaces", err)
	for _, i := range interfaces {
		n.left["interface"] = append(n.left["interface"], trace{name: i.Name})
	}
	n.see(Processes, n.readProcesses(cmp.Or(c.Proc, "/proc")))
	var ports []uint16
	for _, text := range signs("port") {
		number, _ := strconv.ParseUint(text, 10, 16) // the table has numbers only
		ports = append(ports, uint16(number))
	}
	n.Ports, err = ForeignPorts(ports...)
	n.see("listening ports", err)
	n.left["plugin"], err = readPlugins(cmp.Or(c.CNIConfig, "/etc/cni/net.d"))
	n.see("CNI configuration", err)
	for _, path := range signs("file") {
		if _, err := os.Stat(path); err == nil {
			n.left["file"] = append(n.left["file"], trace{name: path})
		} else if !errors.Is(err, fs.ErrNotExist) {
			n.see("files", err)
		}
	}
	return n
}

func (n *Node) see(what string, err error) {
	if err != nil {
		n.Unseen = append(n.Unseen, Unseen{what, err})
	}
}

// Blind returns why tables could not be read; nil if they were.
func (n *Node) Blind() error {
	for _, u := range n.Unseen {
		if u.What == NFTables || u.What == LegacyTables {
			return u.Err
		}
	}
	return nil
}

// errOwnProcesses means that the processes may be a container's only.
var errOwnProcesses = errors.New("no kubelet or container runtime is among the visible ones: " +
	"the node's may not be visible (set hostPID in a pod)")

// starters are programs that start the containers of a node, by the beginnings of their names.
// Their PID namespace contains the ones of all pods, so what sees one of them sees all.
var starters = []string{"kubelet", "kubelite", "k3s-", "containerd", "crio", "conmon", "dockerd"}

func (n *Node) readProcesses(proc string) (err error) {
	n.Processes, err = ReadProcesses(proc)
	n.Nested = err == nil && !slices.ContainsFunc(n.Processes, isKernel)
	return err
}

// isKernel reports whether a process is the parent of the kernel's threads, which only the first
// PID namespace has.
func isKernel(p Process) bool { return p.PID == 2 && p.Name == "kthreadd" }

// ReadProcesses returns the processes that a proc file system shows, with an error if these may
// not be all of the node. A node that is a container itself, as in kind, has a PID namespace
// within the machine's. One that ends meanwhile is skipped.
func ReadProcesses(proc string) (all []Process, err error) {
	folders, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	own, _ := os.Readlink(filepath.Join(proc, "thread-self", "ns", "net")) // without it, none is visible
	complete := false
	for _, f := range folders {
		pid, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		name, err := os.ReadFile(filepath.Join(proc, f.Name(), "comm"))
		if err != nil {
			continue
		}
		p := Process{PID: pid, Name: strings.TrimSpace(string(name))}
		if its, err := os.Readlink(filepath.Join(proc, f.Name(), "ns", "net")); err == nil && own != "" {
			p.Here, p.Elsewhere = its == own, its != own
		}
		all = append(all, p)
		starts := func(s string) bool { return !p.Elsewhere && strings.HasPrefix(p.Name, s) }
		complete = complete || isKernel(p) || slices.ContainsFunc(starters, starts)
	}
	if !complete {
		err = errOwnProcesses
	}
	return all, err
}

// maxConfig is the size of the largest CNI configuration that is read.
const maxConfig = 1 << 20

// readPlugins reads the types of all CNI plugins that are configured
// (https://www.cni.dev/docs/spec/#configuration-format). A directory that does not exist has
// none. A file that is not valid costs only itself.
func readPlugins(dir string) (all []trace, broken error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if f.IsDir() || !slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(path)) {
			continue
		}
		type plugin struct{ Type string }
		var config struct { // a plugin, or a list of them
			plugin
			Plugins []plugin
		}
		text, err := manifests.ReadFile(path, maxConfig)
		if err == nil {
			err = json.Unmarshal(text, &config)
		}
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("%s: %w", path, err))
		}
		for _, p := range append([]plugin{config.plugin}, config.Plugins...) {
			if p.Type != "" {
				all = append(all, trace{name: p.Type, text: " in " + path})
			}
		}
	}
	return all, broken
}

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
