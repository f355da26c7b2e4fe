"""Which rule dropped a packet: the part of ``sonde packets`` that asks nf_tables when it says NF_DROP.

A rule is compiled to expressions, which lie one behind another in the blob of its chain (``struct nft_rule_dp``). The
expression that says DROP is a rule's last one, so the rules behind it lead to the end of the blob, which knows its
chain (``struct nft_rule_dp_last``, Linux 6.5). From the beginning of the chain's blob that it lies in, of two
generations, the rule that holds the expression is searched; one that is not found leaves an empty name. See
net/netfilter/nf_tables_core.c, nft_do_chain(). What is dropped in there, or when that has returned, without such an
expression, the base chain's policy drops. A rule's comment is not in the blob: it is looked up among the rules of the
chain (struct nft_rule), behind whose expressions it lies (struct nft_userdata, libnftnl's attributes).

iptables-legacy keeps no such trace: of what ipt_do_table() drops, the table and the hook are known.
"""

from __future__ import annotations

MOST_RULES = 4096  # of a chain, that are looked at
# Whether rules can be known, when the script is compiled.
RULES = 'exists("fexit:nft_do_chain") && exists("fexit:nft_immediate_eval") && exists("struct nft_rule_dp_last.chain")'

IPTABLES = " || ".join(f'exists("fexit:{name}_do_table")' for name in ("ipt", "ip6t"))
ANY = f"({RULES}) || {IPTABLES}"
_ATTRIBUTES = 4   # of a rule's data, among which the comment is

MACROS = f"""\
let @rule = lruhash(4096);
let @in_chain = lruhash(4096);
macro nft_family(family) {{
  family == 1 ? "inet " : family == 2 ? "ip " : family == 10 ? "ip6 " : family == 5 ? "netdev " :
  family == 7 ? "bridge " : family == 3 ? "arp " : ""
}}
macro chain_name($chain) {{
  $table = $chain->table;
  str_concat(str_concat(nft_family($table->family), str($table->name, 64)), str_concat(" ", str($chain->name, 64)))
}}
macro rule_comment($chain, $handle) {{
  $head = (uint64)$chain + offsetof(struct nft_chain, rules);
  $item = (uint64)$chain->rules.next; $own = (uint64)0; $text = "";
  for ($k : 0..{MOST_RULES}) {{
    if ($item == $head || $item == 0) {{ break; }}
    $each = (struct nft_rule *)($item - offsetof(struct nft_rule, list));
    if ($each->handle == $handle) {{ $own = (uint64)$each; break; }}
    $item = (uint64)$each->list.next;
  }}
  if ($own != 0 && ((struct nft_rule *)$own)->udata) {{
    $from = $own + offsetof(struct nft_rule, data) + ((struct nft_rule *)$own)->dlen;
    $end = $from + 2 + *(uint8 *)$from;
    $attribute = $from + 1;
    for ($k : 0..{_ATTRIBUTES}) {{
      if ($attribute + 2 > $end) {{ break; }}
      if (*(uint8 *)$attribute == 0) {{ $text = str_concat(" ", str((uint8 *)($attribute + 2), 129)); break; }}
      $attribute = $attribute + 2 + *(uint8 *)($attribute + 1);
    }}
  }}
  $text
}}
macro end_of_rules($expr) {{
  $rule = (struct nft_rule_dp *)((uint64)$expr + $expr->ops->size);
  for ($n : 0..{MOST_RULES}) {{
    if ($rule->is_last) {{ break; }}
    $rule = (struct nft_rule_dp *)((uint64)$rule + sizeof(struct nft_rule_dp) + $rule->dlen);
  }}
  (struct nft_rule_dp_last *)($rule->is_last ? (uint64)$rule : 0)
}}
macro is_in_blob($expr, $blob) {{
  (uint64)$blob != 0 && (uint64)$expr > (uint64)$blob && (uint64)$expr - (uint64)$blob < $blob->size
}}
macro note_rule($expr, $skb, @rule) {{
  @rule[(uint64)$skb] = ("", (uint64)0, "");
  $last = end_of_rules($expr);
  if ((uint64)$last != 0) {{
    $chain = $last->chain;
    $blob = $chain->blob_gen_0;
    if (!is_in_blob($expr, $blob)) {{ $blob = $chain->blob_gen_1; }}
    $at = (struct nft_rule_dp *)((uint64)$blob + offsetof(struct nft_rule_blob, data));
    for ($m : 0..is_in_blob($expr, $blob) ? {MOST_RULES} : 0) {{
      $next = (uint64)$at + sizeof(struct nft_rule_dp) + $at->dlen;
      if ($at->is_last || $next > (uint64)$expr) {{ break; }}
      $at = (struct nft_rule_dp *)$next;
    }}
    $behind = (uint64)$at + sizeof(struct nft_rule_dp) + $at->dlen;
    if (!$at->is_last && (uint64)$at < (uint64)$expr && $behind > (uint64)$expr) {{
      $handle = $at->handle;
      @rule[(uint64)$skb] = (chain_name($chain), $handle, rule_comment($chain, $handle));
    }}
  }}
}}
macro note_policy($chain, $skb, @rule) {{
  if (container_of($chain, struct nft_base_chain, chain)->policy == 0) {{
    @rule[(uint64)$skb] = (str_concat(chain_name($chain), " policy"), (uint64)0, "");
  }}
}}
macro xt_table_argument() {{ if (exists("args.priv")) {{ args.priv }} else {{ args.table }} }}
macro is_netfilter_drop() {{
  if (exists("args.reason")) {{ args.reason == SKB_DROP_REASON_NETFILTER_DROP }} else {{ true }}
}}
"""

# At kfree_skb: what is known of the rule, in $rule.
LOOK_UP = f"""\
$key = (uint64)$skb;
  if ({RULES}) {{ if (!has_key(@rule, $key) && has_key(@in_chain, $key)) {{
    $chain = (struct nft_chain *)@in_chain[$key]; note_policy($chain, $skb, @rule);
  }} }}
  $rule = @rule[$key]; $by_rule = is_netfilter_drop(); delete(@rule, $key);
"""


def rule_clauses(wanted: str) -> str:
    """The clauses that note which rule drops a packet; ``wanted``: whether $skb is one to follow."""
    verdict = "if (args.regs->verdict.code == 0) { $expr = args.expr; $skb = args.pkt->skb; " \
        "if (has_key(@in_chain, (uint64)$skb)) { note_rule($expr, $skb, @rule); } }"
    return f"""\
{MACROS}\
{"".join(_iptables_clause(*each, wanted) for each in (("ipt", "iptables"), ("ip6t", "ip6tables")))}\
fentry:nft_do_chain /{RULES}/ {{
  $skb = args.pkt->skb;
  if ({wanted}) {{ @in_chain[(uint64)$skb] = (uint64)args.priv; }}
}}
fexit:nft_immediate_eval, fexit:nft_lookup_eval /{RULES}/ {{ {verdict} }}
fexit:nft_reject_*_eval /{RULES} && exists("fexit:nft_reject_*_eval")/ {{ {verdict} }}
fexit:nft_do_chain /{RULES}/ {{
  $skb = args.pkt->skb;
  if (has_key(@in_chain, (uint64)$skb)) {{
    if ((retval & 0xff) == 0 && !has_key(@rule, (uint64)$skb)) {{
      $chain = (struct nft_chain *)args.priv; note_policy($chain, $skb, @rule);
    }}
    delete(@in_chain, (uint64)$skb);
  }}
}}
"""


def _iptables_clause(prefix: str, shown: str, wanted: str) -> str:
    """Of what a table of iptables-legacy drops."""
    function = f"fexit:{prefix}_do_table"
    return f"""\
{function} /exists("{function}")/ {{
  if ((retval & 0xff) == 0) {{
    $skb = args.skb; $table = (struct xt_table *)xt_table_argument(); $hook = args.state->hook;
    if ({wanted}) {{
      $name = str_concat("{shown} ", str($table->name, 32));
      $chain = $hook == 0 ? " PREROUTING" : $hook == 1 ? " INPUT" : $hook == 2 ? " FORWARD" :
        $hook == 3 ? " OUTPUT" : " POSTROUTING";
      @rule[(uint64)$skb] = (str_concat($name, $chain), (uint64)0, "");
    }}
  }}
}}
"""
