package ruletext

import "golang.org/x/sys/unix"

// xtMatch is a match of iptables. What it looks for is in a form that only xtables
// knows; the comment alone is text.
func (w *writer) xtMatch(a attributes) {
	name := a.text(unix.NFTA_MATCH_NAME)
	if name == "comment" {
		w.comment = trim(a[unix.NFTA_MATCH_INFO])
		return
	}
	w.write("-m " + name)
}

// xtTarget is a target of iptables.
func (w *writer) xtTarget(a attributes) {
	name := a.text(unix.NFTA_TARGET_NAME)
	w.rejects = w.rejects || name == "REJECT"
	w.write("-j " + name)
}
