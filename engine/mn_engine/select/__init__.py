"""Selection: from ranked candidates to a packet, under a budget and two shares. Pure, deterministic, nothing cut.

Law: required cards are in whole or the call fails (invariant 2); opposing cards are offered their share first (3); one
order that does not depend on the budget (5); following the cursor serves every card once (8).
"""
