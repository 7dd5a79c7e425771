package ruleset

import (
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/wire"
)

// mustNameElements skips a test that needs a kernel which reports the offset of the element
// that it refuses (b53c11664250, Linux 5.19; stable kernels may have it, too). The reply is
// decoded here, not by the code under test.
func mustNameElements(t *testing.T) {
	t.Helper()
	m := newMachine(t)
	start(m, services(2))
	slot := nft.SetID{Family: model.IPv4, Kind: nft.SetEndpoints}
	element := func(n int) nft.Element { // another than the map may have
		return nft.Element{Key: key(web(model.IPv4, n)), Value: nft.Value{Endpoint: endpoint(model.IPv4, 60000)}}
	}
	says, err := m.explains(nft.Batch{nft.AddElements{Set: slot, Elements: []nft.Element{element(2), element(1)}}})
	if err != nil {
		t.Fatal(err)
	}
	if !says {
		t.Skip("this kernel does not report which element it refuses (Linux 5.19)")
	}
}

// explains sends a batch that the kernel refuses, and reports whether the reply has more
// than the number of the error (NLM_F_ACK_TLVS of struct nlmsgerr).
func (m *machine) explains(b nft.Batch) (says bool, err error) {
	encoded, err := wire.Encode(b)
	if err != nil {
		return false, err
	}
	fd := -1
	err = m.host.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1),
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		unix.Sendto(fd, encoded.Bytes, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
	); err != nil {
		return false, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return false, err
	}
	if n < unix.NLMSG_HDRLEN || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR {
		return false, errors.New("the answer is no error")
	}
	return binary.NativeEndian.Uint16(answer[6:])&unix.NLM_F_ACK_TLVS != 0, nil
}

// takesElse reports whether the kernel supports catch-all elements (aaa31047a6d2,
// Linux 5.13).
func takesElse(t *testing.T) bool {
	t.Helper()
	o := installed(t).run(newMachine(t), "add table ip probe; add set ip probe s { type ipv4_addr; elements = { * }; }", "-c", "-f", "-")
	return o.err == nil
}
