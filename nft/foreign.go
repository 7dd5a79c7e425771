package nft

// A ForeignChange is a message to nf_tables about an object of another program, such as a
// table of kube-proxy, in the same transaction as changes of ours. A batch in steps has it
// in the step that switches to the new rules. An error of the kernel names it as the
// refused [Op], so the caller can do without.
type ForeignChange struct {
	// Text is the nft command that does the same.
	Text string
	// Kind is the type of the message (NFT_MSG_*), Flags are NLM_F_* of its header, and
	// Family is NFPROTO_*.
	Kind, Flags uint16
	Family      uint8
	// Attributes is the encoded body of the message, without its header.
	Attributes []byte
	// Generation, if not zero, is the generation of nf_tables that the change depends on.
	// If another transaction was committed since, the kernel refuses the whole batch with
	// ERESTART. It does not fit a batch in steps, because each of them is a transaction.
	Generation uint32
}

func (o ForeignChange) String() string { return o.Text }
