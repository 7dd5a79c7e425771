package livenode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-vmap/nft/kernel/rtnetlink"
)

// WriteNetwork writes, for people, what decides where packets go besides the rules of nf_tables: links, addresses,
// policy rules, routes of all tables, and ipsets. What cannot be read is named, and the rest written.
func WriteNetwork(w io.Writer) (err error) {
	h, err := rtnetlink.Open(0)
	if err != nil {
		return err
	}
	defer h.Close()
	section := func(title string, lines []string, failed error) {
		if failed != nil {
			lines = append(lines, "not read: "+failed.Error())
		}
		_, e := fmt.Fprintf(w, "# %s\n%s\n\n", title, strings.Join(lines, "\n"))
		err = errors.Join(err, e)
	}
	links, failed := h.LinkList()
	var lines, names []string
	for _, l := range links {
		a := l.Attrs()
		lines = append(lines, fmt.Sprintf("%d: %s type %s mtu %d state %s flags %s master %d address %s",
			a.Index, a.Name, l.Type(), a.MTU, a.OperState, a.Flags, a.MasterIndex, a.HardwareAddr))
		names = append(names, a.Name)
	}
	section("links", lines, failed)
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		title := map[int]string{netlink.FAMILY_V4: "IPv4", netlink.FAMILY_V6: "IPv6"}[family]
		list, failed := h.AddrList(nil, family)
		section(title+" addresses", texts(list), failed)
		rules, failed := h.RuleList(family)
		section(title+" rules", texts(rules), failed)
		routes, failed := h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		section(title+" routes", texts(routes), failed)
		hooks, failed := hookTexts(uint8(family)) //nolint:gosec // one of the two
		section(title+" hooks", hooks, failed)
	}
	sets, failed := netlink.IpsetListAll()
	lines = nil
	for i := range sets {
		s := &sets[i]
		lines = append(lines, fmt.Sprintf("%s type %s, %d entries, referenced %d times",
			s.SetName, s.TypeName, s.NumEntries, s.References))
	}
	section("ipsets", lines, failed)
	lines = nil
	for _, name := range names {
		for _, path := range []string{"ipv4/conf/%s/rp_filter", "ipv4/conf/%s/forwarding", "ipv6/conf/%s/forwarding"} {
			path = "net/" + fmt.Sprintf(path, name)
			if text, err := os.ReadFile("/proc/sys/" + path); err == nil {
				lines = append(lines, path+" = "+strings.TrimSpace(string(text)))
			}
		}
	}
	section("sysctls of links", lines, nil)
	return err
}

func texts[T fmt.Stringer](list []T) (out []string) {
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}
