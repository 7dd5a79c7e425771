package ipvs

import (
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What IPVS calls itself in generic netlink (include/uapi/linux/ip_vs.h).
const (
	genlName    = "IPVS" // IPVS_GENL_NAME
	genlVersion = 1      // IPVS_GENL_VERSION
)

// genlHeaderLen is the length of struct genlmsghdr.
const genlHeaderLen = 4

// family is the number of IPVS among the generic netlink families, zero if the
// kernel has no IPVS. All are listed, because to ask for one by name makes the
// kernel load its module.
func family(conn *netlink.Conn) (id uint16, err error) {
	m := message(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY, netlink.Dump, nil)
	err = ask(conn, m, func(ad *netlink.AttributeDecoder) error {
		var name string
		var number uint16
		for ad.Next() {
			switch ad.Type() {
			case unix.CTRL_ATTR_FAMILY_ID:
				number = ad.Uint16()
			case unix.CTRL_ATTR_FAMILY_NAME:
				name = ad.String()
			}
		}
		if name == genlName {
			id = number
		}
		return nil
	})
	return id, err
}

func message(id uint16, command uint8, flags netlink.HeaderFlags, add func(*netlink.AttributeEncoder)) netlink.Message {
	ae := netlink.NewAttributeEncoder()
	if add != nil {
		add(ae)
	}
	attributes, err := ae.Encode()
	if err != nil {
		panic("ipvs: " + err.Error()) // more than 64 KiB, of what the kernel told us in less
	}
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(id), Flags: netlink.Request | flags},
		Data:   append([]byte{command, genlVersion, 0, 0}, attributes...),
	}
}

// ask sends a request and has fn, if there is one, read each answer.
func ask(conn *netlink.Conn, m netlink.Message, fn func(*netlink.AttributeDecoder) error) error {
	answers, err := conn.Execute(m)
	if err != nil {
		return fmt.Errorf("ask generic netlink: %w", err)
	}
	for _, a := range answers {
		if fn == nil || a.Header.Type == netlink.Error {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(a.Data[min(genlHeaderLen, len(a.Data)):])
		if err != nil {
			return fmt.Errorf("decode an answer of generic netlink: %w", err)
		}
		if err := errors.Join(fn(ad), ad.Err()); err != nil {
			return fmt.Errorf("decode an answer of generic netlink: %w", err)
		}
	}
	return nil
}
