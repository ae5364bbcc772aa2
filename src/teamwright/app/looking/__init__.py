"""Looking from outside: sessions, their logs and receipts, who is alive. Reads; locks and changes nothing."""
