package matrix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// TestChecksumsAreChecked sends over UDP without checksums, which IPv4 allows: none may come in on
// the way. Then it spoils all checksums behind our rules, to show that hosts detect a wrong one:
// otherwise the matrix would not prove that ours are right. The destination of the first packet of
// a flow is written twice in the same hook: to the ClusterIP, and to the endpoint.
func TestChecksumsAreChecked(t *testing.T) {
	s := newScene(t)
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	s.put(daemon.Service{Number: 1, EndpointSpec: "pod-1"}, daemon.Service{Number: 2, EndpointSpec: "remote-1"})
	s.start(daemon.PodRanges)
	for n, endpoint := range map[int]*lab.Host{1: s.Pods[0].Host, 2: s.RemotePods[0].Host} {
		for _, k := range usual {
			for _, from := range []*lab.Host{s.Outside, s.Node.Host} {
				to := k.at(model.IPv4, n)
				if sum, err := sendUnchecked(from, endpoint, to); err != nil || sum != 0 {
					t.Errorf("%s sends to %s, %s, without checksum: it arrives with %#04x, %v", from, to, k, sum, err)
				}
			}
		}
	}
	s.nft(`table inet spoil { chain late { type filter hook postrouting priority 200;
		udp dport 8080 @th,48,16 set 0x1234; tcp dport 8080 @th,128,16 set 0x1234; sctp dport 8080 @th,64,32 set 0x12345678; }; }`)
	s.check(t, asks([]*client{s.outside}, []kind{vip}, 1, isSilent))
}

// sumInSoftware has the interfaces of the calling thread's network namespace
// compute and check checksums instead of leaving that to a device.
func sumInSoftware() error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range interfaces {
		for _, command := range []uint32{unix.ETHTOOL_STXCSUM, unix.ETHTOOL_SRXCSUM} {
			// A bridge has no say in what it receives.
			if err := ethtool(i.Name, command); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
				return fmt.Errorf("ethtool %#x of %s: %w", command, i.Name, err)
			}
		}
	}
	return nil
}

// ethtool gives an interface's switch the value 0 (struct ethtool_value,
// include/uapi/linux/ethtool.h).
func ethtool(name string, command uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	value := struct{ command, data uint32 }{command: command}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // of a union
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// question is what is sent without checksum.
const question = "1 without checksum\n"

// sendUnchecked sends a UDP packet without checksum from one host, by way of an
// address, to another, and returns the checksum with which it arrives there.
func sendUnchecked(from, to *lab.Host, by netip.AddrPort) (sum uint16, err error) {
	watch := -1
	err = to.Do(func() (err error) {
		watch, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", to, err)
	}
	defer func() { _ = unix.Close(watch) }()
	err = from.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1),
			unix.Sendto(fd, []byte(question), 0, &unix.SockaddrInet4{Port: int(by.Port()), Addr: by.Addr().As4()}),
		)
	})
	if err != nil {
		return 0, fmt.Errorf("send from %s: %w", from, err)
	}
	return checksumOf(watch)
}

// checksumOf waits for the question and reads the checksum it has.
func checksumOf(watch int) (uint16, error) {
	timeout := unix.NsecToTimeval(answer.Nanoseconds())
	if err := unix.SetsockoptTimeval(watch, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return 0, err
	}
	packet := make([]byte, 2048)
	for deadline := time.Now().Add(answer); time.Now().Before(deadline); {
		n, err := unix.Read(watch, packet)
		if err != nil {
			return 0, fmt.Errorf("wait for the question: %w", err)
		}
		header := int(packet[0]&0xf) * 4
		if n == header+8+len(question) && string(packet[header+8:n]) == question {
			return binary.BigEndian.Uint16(packet[header+6:]), nil
		}
	}
	return 0, errors.New("the question did not arrive")
}
