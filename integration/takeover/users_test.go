package takeover

import (
	"regexp"

	"kube-vmap/model"
)

// users are rules of other programs that use chains of kube-proxy.
const users = `*nat
:CNI-HOSTPORT-SETMARK - [0:0]
:MINE - [0:0]
-A PREROUTING -p tcp -m tcp --dport 81 -j KUBE-MARK-MASQ
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A MINE -m comment --comment mine -g KUBE-SERVICES
COMMIT
*filter
:MINE - [0:0]
-A MINE -j KUBE-FORWARD
COMMIT
`

// expectedAfterRemoval is the content of tables with users after the removal.
var expectedAfterRemoval = map[string]string{
	"nat": `*nat
:CNI-HOSTPORT-SETMARK - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
:MINE - [0:0]
-A PREROUTING -p tcp -m tcp --dport 81 -j KUBE-MARK-MASQ
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A MINE -m comment --comment mine -g KUBE-SERVICES
COMMIT
`,
	"filter": `*filter
:KUBE-FORWARD - [0:0]
:MINE - [0:0]
-A MINE -j KUBE-FORWARD
COMMIT
`,
	"mangle": `*mangle
COMMIT
`,
}

// loadUsers adds the users.
func (m *machine) loadUsers(b backend) {
	m.t.Helper()
	for _, f := range model.Families {
		m.loadIPTables(b, f, users)
	}
}

// checkUsers checks that the users are unchanged, and that their jumps have no effect
// except for the mark.
func (m *machine) checkUsers(b backend) {
	m.t.Helper()
	for _, f := range model.Families {
		for table, want := range expectedAfterRemoval {
			text := m.run("", b.tool(f, "save"), "-t", table)
			same(m.t, "remaining and expected rules", builtin.ReplaceAllString(comments.ReplaceAllString(text, ""), ""), want)
		}
	}
}

var builtin = regexp.MustCompile(`(?m)^:[A-Z]+ [A-Z]+ .*\n`)
